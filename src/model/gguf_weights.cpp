// SPDX-License-Identifier: Apache-2.0
#include "model/gguf_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/error.h"
#include "base/limits.h"
#include "base/quote.h"
#include "model/architecture.h"

namespace inflight {
namespace {

struct Shape {
  int32_t rows;
  int32_t columns;
  bool is_vector;     // norm, bias, factors: always F32
  int32_t count = 1;  // of a tensor of one dimension more
  bool is_float = is_vector;
};

class WeightReader {
 public:
  WeightReader(const GgufFile& file, const ModelSpec& spec)
      : file_(file), spec_(spec), architecture_(find_architecture(spec.architecture)) {}

  ModelWeights read() {
    ModelWeights weights;
    const Shape vocabulary_by_hidden{spec_.vocabulary_size, spec_.hidden_size, false};
    weights.token_embedding = required("token_embd.weight", vocabulary_by_hidden);
    weights.layers.resize(static_cast<size_t>(spec_.layer_count));
    for (size_t layer = 0; layer < weights.layers.size(); ++layer) {
      read_layer(layer, weights.layers[layer]);
    }
    if (spec_.layer_embedding_size > 0) read_layer_embeddings(weights);
    const Shape vector{1, spec_.hidden_size, true};
    const bool weightless = architecture_.weightless_norms;
    weights.output_norm =
        weightless ? ones(spec_.hidden_size) : required(std::string(architecture_.output_norm), vector);
    if (lists(architecture_.needed, "attn_norm.bias")) weights.output_norm_bias = required("output_norm.bias", vector);
    weights.output = optional("output.weight", vocabulary_by_hidden);
    weights.tied_output = !weights.output.present();
    if (weights.tied_output) weights.output = weights.token_embedding;
    weights.output_bias = optional("output.bias", {1, spec_.vocabulary_size, true});
    if (const auto labels = static_cast<int32_t>(spec_.labels.size()); labels > 0) {
      weights.classifier = required("cls.output.weight", {labels, spec_.hidden_size, false});
      weights.classifier_bias = optional("cls.output.bias", {1, labels, true});
    }
    const Shape factors{1, spec_.rope_dimension_count / 2, true};
    weights.rope_factors = optional("rope_freqs.weight", factors);
    if (!weights.rope_factors.present()) weights.rope_factors = optional("rope_factors_short.weight", factors);
    weights.rope_factors_long = optional("rope_factors_long.weight", factors);
    check_divisors(weights.rope_factors);
    check_divisors(weights.rope_factors_long);
    refuse_left_over();
    return weights;
  }

 private:
  void read_layer_embeddings(ModelWeights& weights) {
    const int32_t size = spec_.layer_embedding_size, all = spec_.layer_count * size;
    weights.layer_embeddings = required("per_layer_token_embd.weight", {spec_.vocabulary_size, all, false});
    weights.layer_projection = required("per_layer_model_proj.weight", {all, spec_.hidden_size, false});
    weights.layer_projection_norm = required("per_layer_proj_norm.weight", {1, size, true});
  }

  void read_layer(size_t layer, LayerWeights& weights) {
    const std::string prefix = fmt::format("blk.{}.", layer);
    const auto number = static_cast<int32_t>(layer);
    const bool feeds_forward = spec_.feed_forward_size_of(number) > 0;
    const bool mixed =
        feeds_forward && spec_.expert_count > 0 && file_.find_tensor(prefix + "ffn_gate_inp.weight") != nullptr;
    if (spec_.gated_attention && is_of(Mixer::Attention, number)) read_gated_query(prefix, weights);
    if (is_of(Mixer::Mamba2, number)) read_mamba_input(prefix, weights);
    if (is_of(Mixer::DeltaNet, number) && spec_.state.grouped_heads) read_grouped_delta_net(prefix, weights);
    if (is_of(Mixer::LatentAttention, number)) read_latent(prefix, weights);
    if (architecture_.weightless_norms) weights.attention_norm = weights.feed_forward_norm = ones(spec_.hidden_size);
    read_joined(prefix, number, weights);
    if (mixed) read_joined_experts(prefix, weights);
    for (const LayerTensor& tensor : layer_tensors()) {
      if ((weights.*tensor.role).present() || !is_of(tensor.mixer, number)) continue;
      const std::string name = prefix + std::string(name_in_files(tensor.name));
      const Shape shape = shape_of(tensor, number);
      if (tensor.mixer == Mixer::OwnKeys && spec_.shares_kv(number)) {  // some files hold those that nothing reads
        (void)optional(name, shape);
        continue;
      }
      const bool is_needed = is_in_layer(tensor.presence, feeds_forward, mixed)
                                 ? !lists(architecture_.lacking, tensor.name)
                                 : lists(architecture_.needed, tensor.name);
      const bool may_lack = lists(architecture_.optional, tensor.name);
      if (is_needed && !may_lack) {
        weights.*tensor.role = required(name, shape);
      } else if (tensor.presence == Presence::Optional || may_lack) {
        weights.*tensor.role = optional(name, shape);
      }
    }
  }

  [[nodiscard]] static bool lists(std::span<const std::string_view> names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  }

  [[nodiscard]] static WeightView ones(int32_t size) {
    static const std::vector<float> numbers(limits::kHiddenSizeMax, 1.0F);
    return {.name = "1",
            .rows = 1,
            .columns = size,
            .bytes = std::as_bytes(std::span(numbers).first(static_cast<size_t>(size)))};
  }

  [[nodiscard]] std::string_view name_in_files(std::string_view name) const {
    const auto found = std::ranges::find(architecture_.renamed, name, &RenamedTensor::name);
    return found == architecture_.renamed.end() ? name : found->in_files;
  }

  // Whether a layer is one of those.
  [[nodiscard]] bool is_of(Mixer layers, int32_t layer) const {
    const bool attends = spec_.attends(layer), state = spec_.has_state(layer);
    switch (layers) {
      case Mixer::Any:
        return true;
      case Mixer::Some:
        return attends || state;
      case Mixer::Attention:
      case Mixer::OwnKeys:
        return attends && !spec_.is_latent();
      case Mixer::LatentAttention:
        return attends && spec_.is_latent();
      case Mixer::DeltaNet:
        return state && spec_.state.kind == StateKind::DeltaNet;
      case Mixer::ShortConvolution:
        return state && spec_.state.kind == StateKind::ShortConvolution;
      case Mixer::Mamba2:
        return state && spec_.state.kind == StateKind::Mamba2;
    }
    return false;  // not reached
  }

  struct Turn {
    WeightView* view;
    int32_t rows;
    std::string_view name;
  };

  // Matrices that lie in one by turns: `count` times so many rows of each.
  static void take_turns(const WeightView& whole, int32_t count, std::span<const Turn> turns) {
    int32_t stride = 0;
    for (const Turn& turn : turns) stride += turn.rows;
    size_t begin = 0;
    for (const Turn& turn : turns) {
      *turn.view = whole;
      turn.view->name = fmt::format("{} ({})", whole.name, turn.name);
      turn.view->rows = count * turn.rows;
      turn.view->piece_rows = turn.rows;
      turn.view->piece_stride = stride;
      turn.view->bytes = whole.bytes.subspan(begin);
      begin += row_bytes(whole.type, whole.columns) * static_cast<size_t>(turn.rows);
    }
  }

  // Of each head its queries' rows, then its gate's.
  void read_gated_query(const std::string& prefix, LayerWeights& weights) {
    const int32_t size = spec_.head_size;
    const Shape both{2 * spec_.head_count * size, spec_.hidden_size, false};
    const Turn turns[] = {{&weights.query, size, "query"}, {&weights.query_gate, size, "gate"}};
    take_turns(required(prefix + "attn_q.weight", both), spec_.head_count, turns);
  }

  // Of each key head rows of its value heads' corrections, then of their steps; in older files the other
  // matrices are one by turns, too.
  void read_grouped_delta_net(const std::string& prefix, LayerWeights& weights) {
    const StateShape& state = spec_.state;
    const int32_t heads = state.value_heads / state.key_heads, values = heads * state.value_size;
    const Turn steps[] = {{&weights.correction, heads, "corrections"}, {&weights.step, heads, "steps"}};
    const Shape both{2 * state.value_heads, spec_.hidden_size, false};
    take_turns(required(prefix + "ssm_ba.weight", both), state.key_heads, steps);
    const Shape all{state.projected_width() + state.value_width(), spec_.hidden_size, false};
    const WeightView whole = optional(prefix + "ssm_in.weight", all);
    if (!whole.present()) return;
    const Turn inputs[] = {{&weights.mixed, state.key_size, "queries"},
                           {&weights.mixed_keys, state.key_size, "keys"},
                           {&weights.mixed_values, values, "values"},
                           {&weights.output_gate, values, "gate"}};
    take_turns(whole, state.key_heads, inputs);
  }

  // Of each expert its gate's rows, then those of its up matrix, if the file has them joined.
  void read_joined_experts(const std::string& prefix, LayerWeights& weights) {
    const int32_t size = spec_.expert_size;
    const Shape both{2 * size, spec_.hidden_size, false, spec_.expert_count};
    const WeightView whole = optional(prefix + "ffn_gate_up_exps.weight", both);
    if (!whole.present()) return;
    const Turn turns[] = {{&weights.expert_gate, size, "gate"}, {&weights.expert_up, size, "up"}};
    take_turns(whole, spec_.expert_count, turns);
  }

  // Rows of the gate, of what is convolved, of the steps.
  void read_mamba_input(const std::string& prefix, LayerWeights& weights) {
    const StateShape& state = spec_.state;
    struct Part {
      WeightView LayerWeights::* role;
      int32_t rows;
      std::string_view name;
    };
    const Part parts[] = {{&LayerWeights::output_gate, state.value_width(), "gate"},
                          {&LayerWeights::mixed, state.projected_width(), "convolved"},
                          {&LayerWeights::step, state.value_heads, "steps"}};
    int32_t rows = 0;
    for (const Part& part : parts) rows += part.rows;
    const WeightView whole = required(prefix + "ssm_in.weight", {rows, spec_.hidden_size, false});
    size_t begin = 0;
    for (const Part& part : parts) {
      weights.*part.role = part_of(whole, begin, {part.rows, whole.columns, false}, part.name);
      begin += (weights.*part.role).bytes.size();
    }
  }

  // What queries, keys and values are made by.
  void read_latent(const std::string& prefix, LayerWeights& weights) {
    const LatentShape& latent = spec_.latent;
    const int32_t hidden = spec_.hidden_size, rotated = spec_.rope_dimension_count, heads = spec_.head_count;
    const int32_t queries = heads * spec_.projected_query_size();
    if (latent.query_rank == 0) {
      weights.query = required(prefix + "attn_q.weight", {queries, hidden, false});
    } else {
      weights.query_down = required(prefix + "attn_q_a.weight", {latent.query_rank, hidden, false});
      weights.query_down_norm = required(prefix + "attn_q_a_norm.weight", {1, latent.query_rank, true});
      weights.query = required(prefix + "attn_q_b.weight", {queries, latent.query_rank, false});
    }
    const WeightView both = required(prefix + "attn_kv_a_mqa.weight", {latent.rank + rotated, hidden, false});
    weights.latent = part_of(both, 0, {latent.rank, hidden, false}, "latent");
    weights.rotated_key = part_of(both, weights.latent.bytes.size(), {rotated, hidden, false}, "rotated");
    if (file_.find_tensor(prefix + "attn_kv_b.weight") != nullptr) return read_joined_heads(prefix, weights);
    weights.head_keys = required(prefix + "attn_k_b.weight", {latent.rank, latent.unrotated_size, false, heads});
    weights.head_values = required(prefix + "attn_v_b.weight", {latent.value_size, latent.rank, false, heads});
  }

  // In files of before April 2025: of each head the rows that its keys are made by, then those of its values. Queries
  // need the former turned.
  void read_joined_heads(const std::string& prefix, LayerWeights& weights) {
    const LatentShape& latent = spec_.latent;
    const int32_t of_head = latent.unrotated_size + latent.value_size;
    const WeightView whole = required(prefix + "attn_kv_b.weight", {spec_.head_count * of_head, latent.rank, false});
    WeightView &keys = weights.head_keys, &values = weights.head_values;
    keys = values = whole;
    keys.name += " (keys)";
    keys.rows = spec_.head_count * latent.rank;
    keys.columns = latent.unrotated_size;
    keys.piece_rows = latent.rank;
    keys.turned = true;
    values.name += " (values)";
    values.rows = spec_.head_count * latent.value_size;
    values.piece_rows = latent.value_size;
    values.bytes = whole.bytes.subspan(row_bytes(whole.type, latent.rank) * static_cast<size_t>(latent.unrotated_size));
    keys.piece_stride = values.piece_stride = of_head;
  }

  // What begins at that byte.
  [[nodiscard]] static WeightView part_of(const WeightView& whole, size_t begin, Shape own, std::string_view part) {
    const size_t bytes = row_bytes(whole.type, own.columns) * static_cast<size_t>(own.rows);
    return {.name = fmt::format("{} ({})", whole.name, part),
            .type = whole.type,
            .rows = own.rows,
            .columns = own.columns,
            .bytes = whole.bytes.subspan(begin, bytes)};
  }

  // Whether layers have a tensor because of what they are: with a feed-forward, with a router.
  [[nodiscard]] bool is_in_layer(Presence presence, bool feeds_forward, bool mixed) const {
    switch (presence) {
      case Presence::Always:
        return true;
      case Presence::WithFeedForward:
        return feeds_forward;
      case Presence::Dense:
        return feeds_forward && (!mixed || architecture_.dense_beside_experts);
      case Presence::Gated:
        return feeds_forward && (!mixed || architecture_.dense_beside_experts) && spec_.gated_feed_forward;
      case Presence::Mixed:
        return mixed;
      case Presence::Shared:
        return mixed && spec_.shared_expert_size > 0 && !architecture_.dense_beside_experts;
      case Presence::Beside:
        return mixed && architecture_.dense_beside_experts;
      case Presence::Embedded:
        return spec_.layer_embedding_size > 0;
      case Presence::Optional:
      case Presence::WhereNeeded:
        return false;
    }
    return false;  // not reached
  }

  // Takes tensors apart that are several in one, where the file does not have these by themselves.
  void read_joined(const std::string& prefix, int32_t layer, LayerWeights& weights) {
    for (const JoinedTensor& joined : joined_tensors()) {
      std::vector<const LayerTensor*> parts;
      Shape shape{0, 0, false};
      for (const LayerTensor& tensor : layer_tensors()) {
        if (std::ranges::find(joined.parts, tensor.name) == joined.parts.end() || !is_of(tensor.mixer, layer)) continue;
        const Shape part = shape_of(tensor, layer);
        shape = part.is_vector ? Shape{1, shape.columns + part.columns, true}
                               : Shape{shape.rows + part.rows, part.columns, false};
        parts.push_back(&tensor);
      }
      if (!spec_.gated_feed_forward && lists(joined.parts, "ffn_gate.weight")) continue;
      const std::string name = prefix + std::string(joined.name);
      const GgufTensor* const tensor = file_.find_tensor(name);
      if (tensor == nullptr || tensor->columns() != shape.columns || tensor->rows() != shape.rows) continue;
      const WeightView whole = optional(name, shape);
      size_t begin = 0;
      for (const LayerTensor* const part : parts) {
        weights.*part->role = part_of(whole, begin, shape_of(*part, layer), part->name);
        begin += (weights.*part->role).bytes.size();
      }
    }
  }

  [[nodiscard]] Shape shape_of(const LayerTensor& tensor, int32_t layer) const {
    return {extent_of(spec_, layer, tensor.rows), extent_of(spec_, layer, tensor.columns), tensor.is_vector(),
            tensor.per_expert ? spec_.expert_count : 1, tensor.is_float()};
  }

  WeightView required(const std::string& name, Shape shape) {
    WeightView view = optional(name, shape);
    if (!view.present()) {
      fail(ErrorCode::CorruptFile, "{}: tensor {} of architecture {} is missing", file_.path(), quote(name),
           spec_.architecture);
    }
    return view;
  }

  WeightView optional(const std::string& name, Shape shape) {
    const GgufTensor* const tensor = file_.find_tensor(name);
    if (tensor == nullptr) return {};
    used_.insert(tensor->name);
    std::array<int64_t, 4> expected = {shape.columns, 1, 1, 1};
    size_t dimension = 1;
    if (!shape.is_vector) expected.at(dimension++) = shape.rows;
    if (shape.count > 1) expected.at(dimension++) = shape.count;
    if (tensor->dimensions != expected) {
      fail(ErrorCode::CorruptFile, "{}: tensor {} has shape {}, expected [{}]", file_.path(), quote(name),
           tensor->shape(), fmt::join(expected.begin(), expected.begin() + static_cast<ptrdiff_t>(dimension), ", "));
    }
    const int64_t rows = tensor->rows();
    if (rows > std::numeric_limits<int32_t>::max()) {
      fail(ErrorCode::Unsupported, "{}: tensor {} has {} rows, supported: up to {}", file_.path(), quote(name), rows,
           std::numeric_limits<int32_t>::max());
    }
    const auto type = readable_type(tensor->type->id);
    if (shape.is_float && type != TensorType::F32) {
      fail(ErrorCode::Unsupported, "{}: tensor {} has type {}; supported for norms, biases and the like: F32",
           file_.path(), quote(name), tensor->type->name);
    }
    if (!type) {
      fail(ErrorCode::Unsupported,
           "{}: tensor {} has type {}; supported: {}; convert it: llama-quantize --allow-requantize FILE OUT q8_0",
           file_.path(), quote(name), tensor->type->name, readable_type_names());
    }
    return {.name = name,
            .type = *type,
            .rows = static_cast<int32_t>(rows),
            .columns = shape.columns,
            .bytes = tensor->bytes};
  }

  // Angles are divided by these numbers.
  void check_divisors(const WeightView& view) const {
    for (size_t offset = 0; offset < view.bytes.size(); offset += sizeof(float)) {
      float number = 0;
      std::memcpy(&number, view.bytes.data() + offset, sizeof number);
      if (!(number > 0.0F) || !std::isfinite(number)) {
        fail(ErrorCode::CorruptFile, "{}: tensor {} has the number {}, allowed: finite numbers above 0", file_.path(),
             quote(view.name), number);
      }
    }
  }

  // Layers behind the model's own that predict further tokens (MTP).
  [[nodiscard]] bool predicts_further(std::string_view name) const {
    const auto count = file_.find_integer(fmt::format("{}.nextn_predict_layers", spec_.architecture)).value_or(0);
    const auto parsed = parse_layer_tensor(name);
    return parsed && parsed->layer >= spec_.layer_count && parsed->layer - spec_.layer_count < count;
  }

  // Without a tensor that nobody reads the answers would be another model's.
  void refuse_left_over() const {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (!used_.contains(tensor.name) && !predicts_further(tensor.name)) {
        fail(ErrorCode::Unsupported, "{}: tensor {} is not part of architecture {}, or of a layer beyond its {}",
             file_.path(), quote(tensor.name), spec_.architecture, spec_.layer_count);
      }
    }
  }

  const GgufFile& file_;
  const ModelSpec& spec_;
  const Architecture& architecture_;
  std::unordered_set<std::string_view> used_;
};

}  // namespace

ModelWeights read_weights(const GgufFile& file, const ModelSpec& spec) { return WeightReader(file, spec).read(); }

}  // namespace inflight
