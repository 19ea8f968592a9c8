// SPDX-License-Identifier: Apache-2.0
#include "model/lora_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "model/architecture.h"

namespace inflight {
namespace {

constexpr std::string_view kSuffixA = ".lora_a", kSuffixB = ".lora_b";

// The table's matrices, in its order: that of LoraTarget.
std::vector<LayerTensor> target_tensors() {
  std::vector<LayerTensor> targets;
  std::ranges::copy_if(layer_tensors(), std::back_inserter(targets), [](const LayerTensor& tensor) {
    const bool everywhere = tensor.presence == Presence::Always;
    const bool dense = tensor.presence == Presence::Dense || tensor.presence == Presence::Gated;
    const bool there = tensor.mixer == Mixer::Any || tensor.mixer == Mixer::Attention || tensor.mixer == Mixer::OwnKeys;
    return !tensor.is_vector() && there && (everywhere || dense);
  });
  INFLIGHT_CHECK(targets.size() == kLoraTargetCount);
  return targets;
}

struct Place {
  size_t layer;
  size_t target;
};

class LoraReader {
 public:
  LoraReader(const ModelSpec& spec, int32_t rank_max, LoraFile& lora)
      : spec_(spec), rank_max_(rank_max), lora_(lora), targets_(target_tensors()) {
    // No feed-forward of mixtures of experts, or without a gate.
    if (spec.expert_count > 0 || !spec.gated_feed_forward) targets_.resize(kAttentionTargetCount);
  }

  void read() {
    require_text("general.type", "adapter");
    require_text("adapter.type", "lora");
    require_text("general.architecture", spec_.architecture);
    if (lora_.file.find_value("adapter.alora.invocation_tokens") != nullptr) {
      fail(ErrorCode::Unsupported,
           "{}: is an activated LoRA (key 'adapter.alora.invocation_tokens'), allowed: plain LoRA", path());
    }
    lora_.alpha = static_cast<float>(lora_.file.find_number("adapter.lora.alpha").value_or(0.0));
    if (!std::isfinite(lora_.alpha)) {
      fail(ErrorCode::CorruptFile, "{}: key 'adapter.lora.alpha' is {}, allowed: a finite number", path(), lora_.alpha);
    }
    lora_.layers.resize(static_cast<size_t>(spec_.layer_count));
    for (const GgufTensor& tensor : lora_.file.tensors()) read_tensor(tensor);
    check_pairs();
  }

 private:
  [[nodiscard]] const std::string& path() const { return lora_.file.path(); }

  void require_text(const char* key, std::string_view expected) const {
    const auto found = lora_.file.find_string(key);
    if (found == expected) return;
    fail(ErrorCode::Unsupported, "{}: key '{}' is {}, a LoRA adapter for this model has {}", path(), key,
         found ? quote(*found) : "missing", quote(expected));
  }

  [[nodiscard]] std::optional<Place> place_of(std::string_view base) const {
    const auto parsed = parse_layer_tensor(base);
    if (!parsed || parsed->layer >= std::ssize(lora_.layers)) return std::nullopt;
    const auto target = std::ranges::find(targets_, parsed->name, &LayerTensor::name);
    if (target == targets_.end()) return std::nullopt;
    return Place{static_cast<size_t>(parsed->layer), static_cast<size_t>(target - targets_.begin())};
  }

  void read_tensor(const GgufTensor& tensor) {
    const bool is_a = tensor.name.ends_with(kSuffixA);
    if (!is_a && !tensor.name.ends_with(kSuffixB)) {
      fail(ErrorCode::Unsupported, "{}: tensor {} is neither NAME.lora_a nor NAME.lora_b", path(), quote(tensor.name));
    }
    const auto place = place_of(tensor.name.substr(0, tensor.name.size() - kSuffixA.size()));
    if (!place) {
      std::string names;
      for (const LayerTensor& target : targets_) names += (names.empty() ? "" : ", ") + std::string(target.name);
      fail(ErrorCode::Unsupported, "{}: tensor {} adapts what cannot be adapted, allowed: blk.0 to blk.{} with {}",
           path(), quote(tensor.name), spec_.layer_count - 1, names);
    }
    const auto type = readable_type(tensor.type->id);
    if (!type) {
      fail(ErrorCode::Unsupported, "{}: tensor {} has type {}; supported: {}", path(), quote(tensor.name),
           tensor.type->name, readable_type_names());
    }
    if (tensor.rows() != tensor.dimensions[1] || tensor.rows() > std::numeric_limits<int32_t>::max() ||
        tensor.columns() > std::numeric_limits<int32_t>::max()) {
      fail(ErrorCode::CorruptFile, "{}: tensor {} has shape {}, expected a matrix", path(), quote(tensor.name),
           tensor.shape());
    }
    LoraPair& pair = lora_.layers[place->layer][place->target];
    WeightView& matrix = is_a ? pair.a : pair.b;
    matrix = {.name = std::string(tensor.name),
              .type = *type,
              .rows = static_cast<int32_t>(tensor.rows()),
              .columns = static_cast<int32_t>(tensor.columns()),
              .bytes = tensor.bytes};
  }

  void check_pairs() {
    for (const auto& layer : lora_.layers) {
      for (size_t target = 0; target < layer.size(); ++target) {
        if (layer[target].a.present() || layer[target].b.present()) check_pair(layer[target], target);
      }
    }
    if (lora_.rank == 0) fail(ErrorCode::CorruptFile, "{}: adapts no matrix at all", path());
  }

  void check_pair(const LoraPair& pair, size_t target) {
    const auto [a, b] = std::pair(&pair.a, &pair.b);
    const auto role = static_cast<LoraTarget>(target);
    if (spec_.checkpoint_rows && (role == LoraTarget::Query || role == LoraTarget::Key)) {
      fail(ErrorCode::Unsupported,
           "{}: tensor {} adapts queries or keys in the order of GGUF files, which a model read from safetensors does "
           "not "
           "have: make a GGUF file of it, inflight quantize FOLDER OUT.gguf f16",
           path(), quote((a->present() ? a : b)->name));
    }
    if (!a->present() || !b->present()) {
      const std::string& there = a->present() ? a->name : b->name;
      fail(ErrorCode::CorruptFile, "{}: tensor {} is there without its {}", path(), quote(there),
           a->present() ? kSuffixB : kSuffixA);
    }
    const LoraShape shape = lora_shape(spec_, static_cast<LoraTarget>(target));
    if (a->columns != shape.depth || b->rows != shape.outputs || a->rows != b->columns) {
      fail(ErrorCode::CorruptFile,
           "{}: tensors {} [{}, {}] and {} [{}, {}] do not fit, expected [{}, R] and [R, {}] (is it another model's?)",
           path(), quote(a->name), a->columns, a->rows, quote(b->name), b->columns, b->rows, shape.depth,
           shape.outputs);
    }
    if (pair.rank() > rank_max_) {
      fail(ErrorCode::InvalidArgument, "{}: tensor {} has rank {}, allowed: 1 to {} (max_lora_rank)", path(),
           quote(a->name), pair.rank(), rank_max_);
    }
    lora_.rank = std::max(lora_.rank, pair.rank());
  }

  const ModelSpec& spec_;
  int32_t rank_max_;
  LoraFile& lora_;
  std::vector<LayerTensor> targets_;
};

}  // namespace

LoraShape lora_shape(const ModelSpec& spec, LoraTarget target) {
  static const std::vector<LayerTensor> tensors = target_tensors();
  const LayerTensor& tensor = tensors[static_cast<size_t>(target)];
  return {.depth = extent_of(spec, 0, tensor.columns), .outputs = extent_of(spec, 0, tensor.rows)};
}

LoraFile load_lora(const std::string& path, const ModelSpec& spec, int32_t rank_max) {
  LoraFile lora{.file = GgufFile(path)};
  LoraReader(spec, rank_max, lora).read();
  return lora;
}

}  // namespace inflight
