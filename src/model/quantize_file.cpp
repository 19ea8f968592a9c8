// SPDX-License-Identifier: Apache-2.0
#include "model/quantize_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "base/parallel.h"
#include "base/quote.h"
#include "model/architecture.h"
#include "model/convert_rows.h"
#include "model/gguf_file.h"
#include "model/gguf_header.h"
#include "model/gguf_spec.h"
#include "model/output_file.h"
#include "model/spec_keys.h"

namespace inflight {
namespace {

constexpr size_t kSlabNumbers = size_t{2} << 20;  // converted between two writes
constexpr uint32_t kQuantizationVersion = 2;      // of the block formats of Q8_0 and Q4_0
constexpr std::string_view kFileTypeKey = "general.file_type";
constexpr std::string_view kQuantizationVersionKey = "general.quantization_version";

// GGUF's number for "mostly this type".
uint32_t file_type_of(TensorType type) {
  switch (type) {
    case TensorType::F32:
      return 0;
    case TensorType::F16:
      return 1;
    case TensorType::Q4_0:
      return 2;
    case TensorType::Q8_0:
      return 7;
    case TensorType::BF16:
      return 32;
    default:
      INFLIGHT_CHECK(false);  // nothing is written in a type that is only read
  }
  return 0;  // not reached
}

bool is_matrix(const GgufTensor& tensor) {
  const auto has = [&](std::string_view part) { return tensor.name.find(part) != std::string_view::npos; };
  const auto parsed = parse_layer_tensor(tensor.name);
  const bool is_float = parsed && std::ranges::any_of(layer_tensors(), [&](const LayerTensor& known) {
                          return known.is_float() && known.name == parsed->name;
                        });
  return tensor.dimension_count >= 2 && tensor.name.ends_with(".weight") && !has("norm") && !has("ffn_gate_inp") &&
         !is_float;
}

// What becomes of one tensor. No source: copied.
struct Conversion {
  const GgufTensor* tensor = nullptr;
  std::optional<TensorType> source;
  TensorType target{};

  [[nodiscard]] uint32_t type_id() const { return source ? static_cast<uint32_t>(target) : tensor->type->id; }
  [[nodiscard]] size_t bytes() const {
    return source ? row_bytes(target, tensor->columns()) * static_cast<size_t>(tensor->rows()) : tensor->bytes.size();
  }
};

Conversion plan_tensor(const GgufFile& file, const GgufTensor& tensor, TensorType type) {
  const auto source = readable_type(tensor.type->id);
  if (!is_matrix(tensor)) {
    if (!source || source == TensorType::F32) return {&tensor, {}, {}};
    return {&tensor, source, TensorType::F32};
  }
  if (!source) {
    fail(ErrorCode::Unsupported, "{}: tensor {} has type {}; can be converted: {}", file.path(), quote(tensor.name),
         tensor.type->name, readable_type_names());
  }
  if (source == type) return {&tensor, {}, {}};
  const bool makes_logits =
      tensor.name == (file.find_tensor("output.weight") != nullptr ? "output.weight" : "token_embd.weight");
  TensorType target = type == TensorType::Q4_0 && makes_logits ? TensorType::Q8_0 : type;
  if (tensor.columns() % unit_of(target).numbers != 0) target = TensorType::F16;
  if (source == target) return {&tensor, {}, {}};
  return {&tensor, source, target};
}

std::vector<std::byte> header_of(const GgufFile& file, const std::vector<Conversion>& plan, TensorType type) {
  const std::array<std::pair<std::string_view, uint32_t>, 2> set = {
      {{kFileTypeKey, file_type_of(type)}, {kQuantizationVersionKey, kQuantizationVersion}}};
  GgufHeader header(plan.size());
  for (const GgufValue& value : file.metadata()) {
    if (value.key.ends_with(kHalfSplitKey)) continue;  // which is not so in the new file
    const auto found =
        std::find_if(set.begin(), set.end(), [&](const auto& entry) { return entry.first == value.key; });
    if (found == set.end()) {
      header.entry(value);
    } else {
      header.entry(value.key, found->second);
    }
  }
  for (const auto& [key, value] : set) {
    if (file.find_value(key) == nullptr) header.entry(key, value);
  }
  uint64_t offset = 0;
  for (const Conversion& conversion : plan) {
    const GgufTensor& tensor = *conversion.tensor;
    header.string(tensor.name);
    header.number(static_cast<uint32_t>(tensor.dimension_count));
    for (int32_t i = 0; i < tensor.dimension_count; ++i) {
      header.number(tensor.dimensions[static_cast<size_t>(i)]);
    }
    header.number(conversion.type_id());
    header.number(offset);
    offset = align_up<uint64_t>(offset + conversion.bytes(), file.alignment());
  }
  header.pad_to(file.alignment());
  return header.bytes();
}

// Size of the heads whose rows have to be brought into GGUF's order; 0: they are.
int32_t split_head_size(const GgufFile& file) {
  const bool split =
      std::ranges::any_of(file.metadata(), [](const auto& value) { return value.key.ends_with(kHalfSplitKey); });
  return split ? read_spec(file).head_size : 0;
}

// Of queries or keys, with the numbers of a pair of RoPE's next to one another in place of half a head apart.
// ERRORS: CorruptFile for rows that make no whole heads.
std::vector<std::byte> with_pairs_together(const std::string& path, const GgufTensor& tensor, size_t head_size) {
  const auto count = static_cast<size_t>(tensor.dimension_count == 1 ? tensor.columns() : tensor.rows());
  if (count % head_size != 0) {
    fail(ErrorCode::CorruptFile, "{}: tensor {} has {} rows, expected a multiple of the heads' {}", path,
         quote(tensor.name), count, head_size);
  }
  const size_t bytes = tensor.bytes.size() / count;
  std::vector<std::byte> result;
  for (size_t row = 0; row < count; ++row) {
    const size_t within = row % head_size;
    const auto from = tensor.bytes.subspan((row - within + within % 2 * (head_size / 2) + within / 2) * bytes, bytes);
    result.insert(result.end(), from.begin(), from.end());
  }
  return result;
}

bool is_rotated(std::string_view name) {
  return name.find(".attn_q.") != name.npos || name.find(".attn_k.") != name.npos;
}

// Rows of one tensor from the file at `path`, from row `first_row` on, on all processors.
std::vector<std::byte> converted(const std::string& path, const Conversion& conversion, std::span<const std::byte> rows,
                                 size_t first_row) {
  constexpr size_t kRows = 64;  // at once
  const int64_t columns = conversion.tensor->columns();
  const size_t from_stride = row_bytes(*conversion.source, columns), to_stride = row_bytes(conversion.target, columns);
  const size_t count = rows.size() / from_stride;
  std::vector<std::byte> result(count * to_stride);
  try {
    in_parallel(div_ceil(count, kRows), [&](size_t i) {
      const size_t row = i * kRows, some = std::min(kRows, count - row);
      convert_rows(*conversion.source, conversion.target, columns, rows.subspan(row * from_stride, some * from_stride),
                   first_row + row, std::span(result).subspan(row * to_stride, some * to_stride));
    });
    return result;
  } catch (const Error& error) {
    fail(ErrorCode::CorruptFile, "{}: tensor {}, {}", path, quote(conversion.tensor->name), error.what());
  }
}

void refuse_same_file(const GgufFile& input, const std::string& output_path) {
  for (const MappedFile& part : input.parts()) {
    std::error_code absent;
    if (std::filesystem::equivalent(part.identity().path, output_path, absent)) {
      fail(ErrorCode::InvalidArgument, "{}: is the input file too; give the output another name", output_path);
    }
  }
}

}  // namespace

QuantizeResult quantize_file(const QuantizeOptions& options,
                             const std::function<void(const QuantizeProgress&)>& progress) {
  const GgufFile file(options.input_path);
  refuse_same_file(file, options.output_path);
  std::vector<Conversion> plan;
  QuantizeProgress state;
  QuantizeResult result;
  for (const GgufTensor& tensor : file.tensors()) {
    plan.push_back(plan_tensor(file, tensor, options.type));
    state.total_bytes += tensor.bytes.size();
    ++(plan.back().source ? result.converted_count : result.kept_count);
  }
  const auto head_size = static_cast<size_t>(split_head_size(file));
  const std::vector<std::byte> header = header_of(file, plan, options.type);
  result.input_bytes = file.file_bytes();
  result.output_bytes = header.size();
  for (const Conversion& conversion : plan) {
    result.output_bytes = align_up(result.output_bytes, file.alignment()) + conversion.bytes();
  }

  OutputFile output(options.output_path, result.output_bytes);
  output.write(header);
  size_t written = header.size();
  const std::vector<std::byte> zeros(file.alignment());
  for (const Conversion& conversion : plan) {
    const GgufTensor& tensor = *conversion.tensor;
    const size_t padding = align_up(written, file.alignment()) - written;
    output.write(std::span(zeros).first(padding));
    std::vector<std::byte> reordered;
    if (head_size > 0 && is_rotated(tensor.name)) reordered = with_pairs_together(file.path(), tensor, head_size);
    const std::span<const std::byte> bytes = reordered.empty() ? tensor.bytes : std::span<const std::byte>(reordered);
    const auto rows = static_cast<size_t>(tensor.rows());
    const size_t slab_rows = std::max<size_t>(1, kSlabNumbers / static_cast<size_t>(tensor.columns()));
    const size_t source_stride = tensor.bytes.size() / rows;
    for (size_t row = 0; row < rows; row += slab_rows) {
      state.tensor = tensor.name;
      progress(state);
      const size_t count = std::min(slab_rows, rows - row);
      if (conversion.source) {
        output.write(
            converted(file.path(), conversion, bytes.subspan(row * source_stride, count * source_stride), row));
      } else {
        output.write(bytes.subspan(row * source_stride, count * source_stride));
      }
      state.done_bytes += count * source_stride;
    }
    written += padding + conversion.bytes();
  }
  progress(state);
  output.commit();
  return result;
}

}  // namespace inflight
