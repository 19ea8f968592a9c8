// SPDX-License-Identifier: Apache-2.0
// The shape of the model in a GGUF file, from its metadata.
#pragma once

#include "core/model_spec.h"
#include "model/gguf_file.h"

namespace inflight {

// Works on files without weights too: the vocabulary's size is that of the embedding, else of the
// key, else of the tokens.
// ENSURES: the result is validate()d.
// ERRORS:  CorruptFile for missing, ill-typed or contradicting keys; Unsupported for another architecture, a mixture of
//          experts of a dense one, or a way to scale RoPE or to choose experts that this build does not know. Each
//          names the file and the key.
[[nodiscard]] ModelSpec read_spec(const GgufFile& file);

}  // namespace inflight
