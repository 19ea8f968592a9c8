// SPDX-License-Identifier: Apache-2.0
#include "core/model_spec.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/limits.h"

namespace inflight {
namespace {

void require_range(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    fail(ErrorCode::CorruptFile, "the model's {} is {}, allowed: {} to {}", name, value, low, high);
  }
}

void require_positive(const char* name, float value) {
  if (!(value > 0.0F) || !std::isfinite(value)) {
    fail(ErrorCode::CorruptFile, "the model's {} is {}, allowed: a finite number above 0", name, value);
  }
}

void require_multiple(const char* name, int32_t value, int32_t unit) {
  if (value % unit != 0) {
    fail(ErrorCode::Unsupported, "the model's {} is {}, supported: multiples of {}", name, value, unit);
  }
}

// The matrices of all experts are packed as one, so none may end within a panel of outputs.
void require_whole_panels(const char* name, int32_t value) {
  if (value % limits::kExpertSizeUnit != 0) {
    fail(ErrorCode::Unsupported, "the {} of a mixture of experts is {}, supported: multiples of {}", name, value,
         limits::kExpertSizeUnit);
  }
}

void validate_state(const StateShape& state) {
  require_range("states' window", state.window, 2, limits::kStateWindowMax);
  if (state.kind == StateKind::ShortConvolution) {
    require_multiple("convolved width", state.value_size, limits::kStateSizeUnit);
    return;
  }
  require_range("states' key heads", state.key_heads, 1, limits::kHiddenSizeMax);
  require_range("states' value heads", state.value_heads, state.key_heads, limits::kHiddenSizeMax);
  require_range("states' key size", state.key_size, 1, limits::kStateSizeMax);
  require_range("states' value size", state.value_size, 1, limits::kStateSizeMax);
  require_multiple("states' key size", state.key_size, limits::kStateSizeUnit);
  require_multiple("states' value size", state.value_size, limits::kStateValueUnit);
  if (state.value_heads % state.key_heads != 0) {
    fail(ErrorCode::Unsupported, "the model's states have {} value heads for {} key heads; supported: a multiple",
         state.value_heads, state.key_heads);
  }
  require_multiple("width that states' heads norm together", state.norm_width(), limits::kStateSizeUnit);
}

// Heads of local layers are stored as those of the others, their two halves apart, so that all rotate the same pairs.
void validate_local_heads(const ModelSpec& spec) {
  if (spec.local_window == 0) {
    fail(ErrorCode::Unsupported, "the model's local layers have heads of their own size, but it has no local layers");
  }
  require_range("head size of local layers", spec.local_head_size, 2, spec.head_size);
  require_multiple("head size of local layers", spec.local_head_size, limits::kLocalHeadSizeUnit);
  require_multiple("head size", spec.head_size, limits::kLocalHeadSizeUnit);
  if (spec.rope_dimension_count != spec.head_size || spec.rope_style != RopeStyle::HalfSplit) {
    fail(ErrorCode::Unsupported,
         "the model rotates {} of {} numbers of a head; supported where local layers have heads of their own size: all",
         spec.rope_dimension_count, spec.head_size);
  }
}

void validate_local_kv_heads(const ModelSpec& spec) {
  if (spec.local_window == 0) {
    fail(ErrorCode::Unsupported,
         "the model's local layers have KV heads of their own number, but it has no local layers");
  }
  require_range("KV head count of local layers", spec.local_kv_head_count, 1, spec.head_count);
  if (spec.head_count % spec.local_kv_head_count != 0) {
    fail(ErrorCode::CorruptFile, "the model has {} query heads, not a multiple of the {} KV heads of its local layers",
         spec.head_count, spec.local_kv_head_count);
  }
}

// Each layer that shares K and V needs one of its kind before.
void validate_sharing(const ModelSpec& spec) {
  require_range("number of layers with K and V", spec.first_sharing_layer, 1, spec.layer_count);
  if (spec.local_window > 0) {
    require_range("number of layers with K and V", spec.first_sharing_layer, spec.global_every, spec.layer_count);
  }
}

// It is part of the angles that queries are rotated by.
void validate_temperature(const ModelSpec& spec) {
  require_positive("attention temperature scale", spec.temperature_scale);
  require_range("attention temperature length", spec.temperature_length, 1, limits::kContextTokensMax);
  if (spec.rope_dimension_count != spec.head_size || spec.unrotated_every != 0 || spec.local_window != 0 ||
      spec.norms_rotated) {
    fail(ErrorCode::Unsupported,
         "the model's queries have a temperature scale; supported only where all numbers of all heads are rotated, and "
         "in all layers alike");
  }
}

// Each head has matrices of its own, packed one after the other: none may end within a panel of outputs.
void validate_latent(const ModelSpec& spec) {
  const LatentShape& latent = spec.latent;
  require_range("latent rank of queries", latent.query_rank, 0, limits::kHiddenSizeMax);
  require_range("heads' unrotated size", latent.unrotated_size, 1, limits::kHeadSizeMax);
  require_range("heads' value size", latent.value_size, 1, limits::kHeadSizeMax);
  require_multiple("latent rank", latent.rank, limits::kExpertSizeUnit);
  require_multiple("heads' value size", latent.value_size, limits::kExpertSizeUnit);
  if (spec.kv_head_count != 1) {
    fail(ErrorCode::Unsupported, "the model has {} KV heads, supported of latent attention: 1", spec.kv_head_count);
  }
  if (spec.expert_groups > 1) {
    fail(ErrorCode::Unsupported, "the model's experts are in {} groups, supported beside latent attention: 1",
         spec.expert_groups);
  }
}

}  // namespace

void ModelSpec::validate() const {
  require_range("layer count", layer_count, 1, limits::kLayerCountMax);
  require_range("hidden size", hidden_size, 1, limits::kHiddenSizeMax);
  require_range("feed-forward size", feed_forward_size, 1, int64_t{8} * limits::kHiddenSizeMax);
  const int32_t least = lone_layer_count() > 0 ? 0 : 1;
  for (const int32_t size : feed_forward_sizes) require_range("feed-forward size", size, least, feed_forward_size);
  require_range("embedding size of a layer", layer_embedding_size, 0, limits::kHiddenSizeMax);
  if (expert_count != 0) {
    require_range("expert count", expert_count, 1, limits::kExpertsMax);
    require_range("number of experts used", experts_used, 1, std::min(expert_count, limits::kExpertsUsedMax));
    require_range("expert's feed-forward size", expert_size, 1, int64_t{8} * limits::kHiddenSizeMax);
    require_range("shared expert's feed-forward size", shared_expert_size, 0, int64_t{8} * limits::kHiddenSizeMax);
    require_positive("scale of experts' weights", expert_weight_scale);
    require_range("number of expert groups", expert_groups, 1, std::min(expert_count, limits::kExpertGroupsMax));
    require_range("number of expert groups used", expert_groups_used, 1, expert_groups);
    const int32_t group = expert_count / expert_groups;
    if (expert_count % expert_groups != 0 || (expert_groups > 1 && group < 2) ||
        group * expert_groups_used < experts_used) {
      fail(ErrorCode::CorruptFile,
           "the model's {} experts in {} groups, {} of {} used, allowed: equal groups of two or more, enough of them",
           expert_count, expert_groups, experts_used, expert_groups_used);
    }
    require_whole_panels("hidden size", hidden_size);
    require_whole_panels("expert's feed-forward size", expert_size);
  }
  require_range("head count", head_count, 1, hidden_size);
  require_range("KV head count", kv_head_count, 1, head_count);
  require_range("head size", head_size, 2, limits::kHeadSizeMax);
  require_range("vocabulary size", vocabulary_size, 1, limits::kVocabularyMax);
  require_range("context length", context_length, 2, limits::kContextTokensMax);
  require_range("sliding window", sliding_window, 0, limits::kContextTokensMax);
  require_range("local layers' window", local_window, 0, limits::kContextTokensMax);
  if (local_window > 0) require_range("sliding window pattern", global_every, 2, limits::kLayerCountMax + 1);
  require_range("RoPE dimension count", rope_dimension_count, 2, head_size);
  require_positive("norms' epsilon", norm_epsilon);
  require_positive("embedding scale", embedding_scale);
  require_positive("residual scale", residual_scale);
  if (attention_scale != 0.0F) require_positive("attention scale", attention_scale);
  require_positive("logit scale", logit_scale);
  if (temperature_scale != 0.0F) validate_temperature(*this);
  if (attention_softcap != 0.0F) require_positive("attention softcap", attention_softcap);
  if (logit_softcap != 0.0F) require_positive("logit softcap", logit_softcap);
  if (local_rope_base != 0.0F) require_positive("local layers' RoPE base", local_rope_base);
  require_positive("RoPE base", rope_base);
  require_positive("RoPE scaling factor", rope_scaling.factor);
  require_positive("RoPE magnitude", rope_scaling.magnitude);
  if (head_count % kv_head_count != 0) {
    fail(ErrorCode::CorruptFile, "the model has {} query heads, not a multiple of its {} KV heads", head_count,
         kv_head_count);
  }
  if (head_size % 2 != 0 || rope_dimension_count % 2 != 0) {
    fail(ErrorCode::CorruptFile, "the model's head size {} or RoPE dimension count {} is odd", head_size,
         rope_dimension_count);
  }
  require_range("number of layers that attend", kv_layer_count(), 1, layer_count);
  if (has_state()) {
    if (sliding_window > 0 || local_window > 0) {
      fail(ErrorCode::Unsupported,
           "the model has a sliding window of {} tokens beside layers with states, supported: none",
           std::max(sliding_window, local_window));
    }
    validate_state(state);
  }
  if (is_latent()) validate_latent(*this);
  if (local_head_size > 0) validate_local_heads(*this);
  if (local_kv_head_count > 0) validate_local_kv_heads(*this);
  if (first_sharing_layer > 0) validate_sharing(*this);
  if (rope_scaling.kind == RopeScaling::Kind::Llama3) {
    require_range("RoPE original context length", rope_scaling.original_context_length, 1, limits::kContextTokensMax);
    require_positive("RoPE low frequency factor", rope_scaling.low_frequency_factor);
    require_positive("RoPE high frequency factor minus the low one",
                     rope_scaling.high_frequency_factor - rope_scaling.low_frequency_factor);
  }
  if (rope_scaling.kind == RopeScaling::Kind::Yarn) {
    require_range("RoPE original context length", rope_scaling.original_context_length, 1, limits::kContextTokensMax);
    require_positive("RoPE base minus 1", rope_base - 1.0F);
    require_positive("RoPE beta_slow", rope_scaling.beta_slow);
    require_positive("RoPE beta_fast minus beta_slow", rope_scaling.beta_fast - rope_scaling.beta_slow);
  }
}

}  // namespace inflight
