// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "base/quote.h"
#include "cli/format.h"
#include "core/kv_layout.h"
#include "model/gguf_spec.h"
#include "model/gguf_weights.h"
#include "ops/panel.h"

namespace inflight::cli {
namespace {

constexpr int32_t kSequences = 16;    // the example batch of the memory table
constexpr int32_t kBlockTokens = 16;  // the default block_size
constexpr size_t kElementsShown = 6;  // of an array
constexpr size_t kElementBytesShown = 24;
constexpr size_t kTextBytesShown = 90;  // of a string, in tables

using Json = nlohmann::ordered_json;

// KV storage of `sequences` sequences of `tokens` tokens each, in whole blocks; in local layers, of those that the
// window and the next token touch.
size_t kv_bytes(const ModelSpec& spec, KvType type, int32_t tokens, int32_t sequences) {
  KvLayout layout = KvLayout::of(spec, kBlockTokens, type);
  layout.local_head_count = spec.local_stored_head_count();
  const int32_t blocks = div_ceil(tokens, kBlockTokens);
  const int32_t local = std::min(blocks, div_ceil(spec.local_window, kBlockTokens) + 1);
  const size_t bytes =
      layout.bytes_per_block() * static_cast<size_t>(blocks) + layout.bytes_per_slot() * static_cast<size_t>(local);
  return bytes * static_cast<size_t>(sequences);
}

// What the model's KV can be stored as.
std::vector<KvType> kv_types_of(const ModelSpec& spec) {
  std::vector<KvType> types = {KvType::F16, KvType::I16, KvType::F32};
  if (spec.head_size % 32 == 0) types.push_back(KvType::Q8_0);
  return types;
}

// A value by itself or an element of an array; neither an array.
struct Element {
  GgufValueType type{};
  std::span<const std::byte> bytes;

  [[nodiscard]] std::string_view string() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
};

std::string element_text(const Element& element, size_t string_bytes) {
  if (element.type == GgufValueType::String) {
    return fmt::format("\"{}\"", escape(element.string(), string_bytes));
  }
  const GgufScalar scalar = decode_scalar(element.type, element.bytes.data());
  if (element.type == GgufValueType::Float32) {  // the shortest that is the same float: 1e-05
    return fmt::format("{}", static_cast<float>(std::get<double>(scalar)));
  }
  return std::visit([](auto value) { return fmt::format("{}", value); }, scalar);
}

Json element_json(const Element& element) {
  if (element.type == GgufValueType::String) return std::string(element.string());
  return std::visit([](auto value) { return Json(value); }, decode_scalar(element.type, element.bytes.data()));
}

// Up to kElementsShown elements; none of an array of arrays.
std::vector<Element> first_elements(const GgufValue& array) {
  std::vector<Element> first;
  const size_t count = std::min<size_t>(array.count, kElementsShown);
  if (array.element_type == GgufValueType::String) {
    std::vector<std::string_view> texts = decode_strings(array);
    texts.resize(count);
    for (const std::string_view text : texts) {
      first.push_back({GgufValueType::String, std::as_bytes(std::span(text))});
    }
  } else if (const size_t stride = scalar_bytes(array.element_type); stride != 0) {
    for (size_t i = 0; i < count; ++i) {
      first.push_back({array.element_type, array.bytes.subspan(i * stride, stride)});
    }
  }
  return first;
}

std::string value_text(const GgufValue& value) {
  if (value.type != GgufValueType::Array) {
    return element_text({value.type, value.bytes}, kTextBytesShown);
  }
  std::vector<std::string> shown;
  for (const Element& element : first_elements(value)) {
    shown.push_back(element_text(element, kElementBytesShown));
  }
  return fmt::format("{}: {}{}", grouped(static_cast<int64_t>(value.count)), fmt::join(shown, ", "),
                     value.count > shown.size() ? ", ..." : "");
}

// Arrays as {element_type, count, first: [...]}: a vocabulary would drown the rest.
Json value_json(const GgufValue& value) {
  if (value.type != GgufValueType::Array) return element_json({value.type, value.bytes});
  Json first = Json::array();
  for (const Element& element : first_elements(value)) first.push_back(element_json(element));
  return {{"element_type", to_string(value.element_type)}, {"count", value.count}, {"first", std::move(first)}};
}

// Rows of cells, each column as wide as its widest cell; numbers to the right.
class Table {
 public:
  explicit Table(std::string aligns) : aligns_(std::move(aligns)) {}  // 'l' or 'r' a column

  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  void print_to(std::string& out) const {
    std::vector<size_t> widths(aligns_.size(), 0);
    for (const auto& row : rows_) {
      for (size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
      if (aligns_.back() == 'r') widths.back() = std::max(widths.back(), row.back().size());
    }
    for (const auto& row : rows_) {
      std::string line = " ";
      for (size_t i = 0; i < row.size(); ++i) {
        line +=
            aligns_[i] == 'r' ? fmt::format(" {:>{}} ", row[i], widths[i]) : fmt::format(" {:<{}} ", row[i], widths[i]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
  }

 private:
  std::string aligns_;
  std::vector<std::vector<std::string>> rows_;
};

std::string experts_text(const ModelSpec& spec) {
  std::string text = fmt::format("{} of {} a token, feed-forward size {}", spec.experts_used, spec.expert_count,
                                 grouped(spec.expert_size));
  if (spec.shared_expert_size > 0) {
    text += fmt::format("; a shared one for every token, {}", grouped(spec.shared_expert_size));
  }
  return text;
}

std::string rope_text(const ModelSpec& spec) {
  if (spec.unrotated_every == 1) return "no RoPE";
  std::string text = fmt::format("RoPE base {}, {} of {} numbers a head, {}", spec.rope_base, spec.rope_dimension_count,
                                 spec.projected_query_size(),
                                 spec.rope_style == RopeStyle::Interleaved ? "neighbours paired" : "halves paired");
  if (spec.rope_scaling.kind == RopeScaling::Kind::Linear) {
    text += fmt::format(", linear scaling {}", spec.rope_scaling.factor);
  }
  if (spec.rope_scaling.kind == RopeScaling::Kind::Llama3) {
    text += fmt::format(", llama3 scaling {}", spec.rope_scaling.factor);
  }
  if (spec.rope_scaling.kind == RopeScaling::Kind::Yarn) {
    text += fmt::format(", YaRN scaling {}", spec.rope_scaling.factor);
  }
  return text;
}

const char* factors_text(const GgufFile& file) {
  if (file.find_tensor("rope_factors_long.weight") != nullptr) return ", frequency factors for short and long contexts";
  return file.find_tensor("rope_freqs.weight") != nullptr ? ", frequency factors" : "";
}

std::string window_text(const ModelSpec& spec) {
  if (spec.sliding_window > 0) return fmt::format(", sliding window of {} tokens", grouped(spec.sliding_window));
  if (spec.local_window == 0) return "";
  return fmt::format(", sliding window of {} tokens in all layers but the last of every {}", grouped(spec.local_window),
                     spec.global_every);
}

std::string attention_text(const ModelSpec& spec) {
  if (!spec.is_latent()) {
    const bool differ = spec.local_head_size > 0 || spec.local_kv_head_count > 0;
    return fmt::format(
        "{} heads of {} over {} KV heads{}", spec.head_count, spec.head_size, spec.kv_head_count,
        differ ? fmt::format(", with a window of {} over {}", spec.head_size_of(0), spec.local_kv_heads()) : "");
  }
  const LatentShape& latent = spec.latent;
  return fmt::format("{} heads with values of {} over latent vectors of {} and {} rotated numbers{}", spec.head_count,
                     latent.value_size, latent.rank, spec.rope_dimension_count,
                     latent.query_rank > 0 ? fmt::format(", queries of rank {}", grouped(latent.query_rank)) : "");
}

std::string states_text(const ModelSpec& spec) {
  const StateShape& state = spec.state;
  const std::string bytes = bytes_text(spec.state_bytes());
  const int32_t layers = spec.stateful_layer_count();
  if (state.kind == StateKind::ShortConvolution) {
    return fmt::format("convolution of {} tokens in {} of the layers, {} a sequence", state.window, layers, bytes);
  }
  return fmt::format("{} in {} of the layers, {} value heads of {} for {} key heads of {}, {} a sequence",
                     state.kind == StateKind::Mamba2 ? "Mamba 2" : "delta net", layers, state.value_heads,
                     state.value_size, state.key_heads, state.key_size, bytes);
}

void add_model(const Inspection& inspection, std::string& out) {
  out += "\nModel\n";
  Table table("ll");
  const bool has_tensors = !inspection.file.tensors().empty();
  if (has_tensors) {
    table.row({"parameters", fmt::format("{} ({})", parameters_text(inspection.parameter_count),
                                         grouped(inspection.parameter_count))});
  }
  if (inspection.spec) {
    const ModelSpec& spec = *inspection.spec;
    table.row({"name", fmt::format("{} ({})", spec.name.empty() ? "unnamed" : escape(spec.name, kTextBytesShown),
                                   spec.architecture)});
    const int32_t alone = spec.lone_layer_count();
    table.row({"layers",
               fmt::format("{}, hidden size {}, feed-forward size {}{}", spec.layer_count, grouped(spec.hidden_size),
                           grouped(spec.feed_forward_size), alone > 0 ? fmt::format(" in {} of them", alone) : "")});
    if (spec.expert_count > 0) table.row({"experts", experts_text(spec)});
    table.row({"attention",
               fmt::format("{}{}{}", attention_text(spec), window_text(spec),
                           spec.has_state()               ? fmt::format(", in {} of the layers", spec.kv_layer_count())
                           : spec.first_sharing_layer > 0 ? fmt::format(", K and V of {} layers", spec.kv_layer_count())
                                                          : "")});
    if (spec.has_state()) table.row({"states", states_text(spec)});
    table.row({"positions", fmt::format("{} tokens, {}{}", grouped(spec.context_length), rope_text(spec),
                                        factors_text(inspection.file))});
    const bool tied = inspection.file.find_tensor("output.weight") == nullptr;
    table.row({"vocabulary", fmt::format("{} tokens{}", grouped(spec.vocabulary_size),
                                         has_tensors && tied ? ", output tied to the embedding" : "")});
  }
  std::string yes = "yes";
  for (const auto& [stored, computed] : inspection.loaded_as) {
    yes += fmt::format("{} {} becomes {}", yes == "yes" ? ", when loaded" : ",", stored, computed);
  }
  table.row({"can be run", inspection.obstacle.empty() ? yes : "no: " + inspection.obstacle});
  table.print_to(out);
}

void add_memory(const Inspection& inspection, std::string& out) {
  const ModelSpec& spec = *inspection.spec;
  out += "\nMemory on the device, activations apart\n";
  const std::vector<KvType> types = kv_types_of(spec);
  Table table("l" + std::string(types.size(), 'r'));
  std::vector<std::string> heads = {""};
  for (const KvType type : types) heads.push_back(fmt::format("KV as {}", to_string(type)));
  table.row(heads);
  const auto add = [&](const std::string& what, auto&& bytes_as) {
    std::vector<std::string> cells = {what};
    for (const KvType type : types) cells.push_back(bytes_text(bytes_as(type)));
    table.row(cells);
  };
  add("one token", [&](KvType type) { return KvLayout::of(spec, kBlockTokens, type).bytes_per_token(); });
  const std::string context = grouped(spec.context_length);
  add(fmt::format("a sequence of {} tokens", context),
      [&](KvType type) { return kv_bytes(spec, type, spec.context_length, 1); });
  add(fmt::format("{} sequences of {} tokens", kSequences, context),
      [&](KvType type) { return kv_bytes(spec, type, spec.context_length, kSequences); });
  add(fmt::format("with the weights' {}", bytes_text(inspection.device_bytes)),
      [&](KvType type) { return inspection.device_bytes + kv_bytes(spec, type, spec.context_length, kSequences); });
  table.print_to(out);
}

void add_totals(const Inspection& inspection, std::string& out) {
  out += "\nTensors by type\n";
  Table table("lrrr");
  table.row({"type", "tensors", "numbers", "bytes"});
  for (const auto& [type, total] : inspection.totals) {
    table.row({type, grouped(total.tensor_count), grouped(total.numbers), grouped(static_cast<int64_t>(total.bytes))});
  }
  table.print_to(out);
}

void add_metadata(const Inspection& inspection, std::string& out) {
  out += "\nMetadata\n";
  Table table("lll");
  table.row({"key", "type", "value"});
  for (const GgufValue& value : inspection.file.metadata()) {
    table.row({escape(value.key, kTextBytesShown), value.type_name(), value_text(value)});
  }
  table.print_to(out);
}

void add_tensors(const Inspection& inspection, std::string& out) {
  out += "\nTensors\n";
  Table table("lllr");
  table.row({"name", "type", "numbers a row, rows", "bytes"});
  for (const GgufTensor& tensor : inspection.file.tensors()) {
    table.row({escape(tensor.name, kTextBytesShown), tensor.type->name, tensor.shape(),
               grouped(static_cast<int64_t>(tensor.bytes.size()))});
  }
  table.print_to(out);
}

Json spec_json(const ModelSpec& spec) {
  constexpr std::array<const char*, 4> kScalings = {"none", "linear", "llama3", "yarn"};
  return {{"architecture", spec.architecture},
          {"name", spec.name},
          {"layer_count", spec.layer_count},
          {"hidden_size", spec.hidden_size},
          {"feed_forward_size", spec.feed_forward_size},
          {"expert_count", spec.expert_count},
          {"experts_used", spec.experts_used},
          {"expert_size", spec.expert_size},
          {"shared_expert_size", spec.shared_expert_size},
          {"head_count", spec.head_count},
          {"kv_head_count", spec.kv_head_count},
          {"head_size", spec.head_size},
          {"local_kv_head_count", spec.local_window > 0 ? spec.local_kv_heads() : 0},
          {"local_head_size", spec.local_window > 0 ? spec.head_size_of(0) : 0},
          {"latent_rank", spec.latent.rank},
          {"vocabulary_size", spec.vocabulary_size},
          {"context_length", spec.context_length},
          {"sliding_window", spec.sliding_window},
          {"local_window", spec.local_window},
          {"global_every", spec.global_every},
          {"attention_layer_count", spec.attending_layer_count(spec.layer_count)},
          {"kv_layer_count", spec.kv_layer_count()},
          {"state_bytes", spec.state_bytes()},
          {"norm_epsilon", spec.norm_epsilon},
          {"rope_base", spec.rope_base},
          {"rope_dimension_count", spec.rope_dimension_count},
          {"rope_scaling", kScalings.at(static_cast<size_t>(spec.rope_scaling.kind))}};
}

Json memory_json(const Inspection& inspection) {
  const ModelSpec& spec = *inspection.spec;
  Json json = {{"weights_bytes", inspection.device_bytes}, {"sequences", kSequences}};
  for (const KvType type : kv_types_of(spec)) {
    json[fmt::format("kv_{}", to_string(type))] = {
        {"token_bytes", KvLayout::of(spec, kBlockTokens, type).bytes_per_token()},
        {"context_bytes", kv_bytes(spec, type, spec.context_length, 1)},
        {"sequences_bytes", kv_bytes(spec, type, spec.context_length, kSequences)}};
  }
  return json;
}

}  // namespace

Inspection inspect(const GgufFile& file) {
  Inspection inspection{.file = file, .spec = {}, .obstacle = {}, .totals = {}};
  for (const GgufTensor& tensor : file.tensors()) {
    TypeTotal& total = inspection.totals[tensor.type->name];
    ++total.tensor_count;
    total.numbers += tensor.numbers();
    total.bytes += tensor.bytes.size();
    inspection.parameter_count += tensor.numbers();
    const std::optional<TensorType> type = readable_type(tensor.type->id);
    if (!type) {
      inspection.device_bytes += tensor.bytes.size();
      continue;
    }
    const TensorType computed = computed_type(*type);
    const int32_t numbers = unit_of(computed).numbers;
    inspection.device_bytes += panel_bytes(static_cast<PanelType>(computed), numbers) / kPanelOutputs *
                               static_cast<size_t>(tensor.numbers() / numbers);
    if (computed != *type) inspection.loaded_as[to_string(*type)] = to_string(computed);
  }
  try {
    inspection.spec = read_spec(file);
    if (file.tensors().empty()) fail(ErrorCode::NotFound, "it holds no tensors");
    (void)read_weights(file, *inspection.spec);
  } catch (const Error& error) {
    inspection.obstacle = error.what();
    const std::string prefix = file.path() + ": ";
    if (inspection.obstacle.starts_with(prefix)) inspection.obstacle.erase(0, prefix.size());
  }
  return inspection;
}

std::string to_text(const Inspection& inspection) {
  const GgufFile& file = inspection.file;
  const size_t parts = file.parts().size();
  std::string out = fmt::format("{}: {}, {}{}, {} metadata keys, {} tensors\n", file.path(),
                                file.is_checkpoint() ? "safetensors" : fmt::format("GGUF version {}", file.version()),
                                parts > 1 ? fmt::format("{} files, ", parts) : "", bytes_text(file.file_bytes()),
                                file.metadata().size(), file.tensors().size());
  add_model(inspection, out);
  if (inspection.spec && !file.tensors().empty()) add_memory(inspection, out);
  if (!file.tensors().empty()) add_totals(inspection, out);
  if (!file.metadata().empty()) add_metadata(inspection, out);
  if (!file.tensors().empty()) add_tensors(inspection, out);
  return out;
}

Json to_json(const Inspection& inspection) {
  const GgufFile& file = inspection.file;
  Json metadata = Json::object();
  for (const GgufValue& value : file.metadata()) {
    metadata[std::string(value.key)] = value_json(value);
  }
  Json tensors = Json::array();
  for (const GgufTensor& tensor : file.tensors()) {
    const auto shape =
        std::vector<int64_t>(tensor.dimensions.begin(), tensor.dimensions.begin() + tensor.dimension_count);
    tensors.push_back({{"name", std::string(tensor.name)},
                       {"type", tensor.type->name},
                       {"shape", shape},
                       {"bytes", tensor.bytes.size()}});
  }
  Json types = Json::object();
  for (const auto& [type, total] : inspection.totals) {
    types[type] = {{"tensors", total.tensor_count}, {"numbers", total.numbers}, {"bytes", total.bytes}};
  }
  return {{"file", file.path()},
          {"format", file.is_checkpoint() ? "safetensors" : "gguf"},
          {"version", file.is_checkpoint() ? Json() : Json(file.version())},
          {"file_count", file.parts().size()},
          {"file_bytes", file.file_bytes()},
          {"parameters", inspection.parameter_count},
          {"runnable", inspection.obstacle.empty()},
          {"obstacle", inspection.obstacle},
          {"spec", inspection.spec ? spec_json(*inspection.spec) : Json()},
          {"memory", inspection.spec ? memory_json(inspection) : Json()},
          {"metadata", std::move(metadata)},
          {"tensors", std::move(tensors)},
          {"types", std::move(types)}};
}

}  // namespace inflight::cli
