// SPDX-License-Identifier: Apache-2.0
// What a model's layers are, which may differ from one to the next, as its file states it.
#pragma once

#include "core/model_spec.h"
#include "model/architecture.h"
#include "model/gguf_file.h"
#include "model/spec_keys.h"

namespace inflight {

// F of each layer, where they differ: the largest is the model's.   REQUIRES: layer count is set.
void read_feed_forward(const GgufFile& file, const SpecKeys& keys, ModelSpec& spec);

// REQUIRES: windows and head size are set.
void read_sharing(const GgufFile& file, const SpecKeys& keys, ModelSpec& spec);

// REQUIRES: layers, context and RoPE are set.
void read_windows(const GgufFile& file, const SpecKeys& keys, const Architecture& architecture, ModelSpec& spec);

// G of the layers that attend. Of families that state by it which ones those are: spec.mixing, too.
// REQUIRES: layer count, feed-forward, head count and windows are set.
void read_kv_heads(const GgufFile& file, const SpecKeys& keys, const Architecture& architecture, ModelSpec& spec);

// REQUIRES: layer count, hidden size and KV heads are set.
void read_states(const GgufFile& file, const SpecKeys& keys, const Architecture& architecture, ModelSpec& spec);

}  // namespace inflight
