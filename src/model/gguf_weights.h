// SPDX-License-Identifier: Apache-2.0
// The weights in a GGUF file, by role.
#pragma once

#include "core/model_spec.h"
#include "model/gguf_file.h"
#include "model/weights.h"

namespace inflight {

// REQUIRES: spec is read_spec(file).
// ENSURES:  every view has the shape that weights.h states; its bytes begin at a multiple of 4, so
//           that F32 can be read in place. No tensor of the file is left over.
// ERRORS:   CorruptFile for a missing tensor or a wrong shape; Unsupported for a type this build
//           does not compute with or a tensor that the architecture does not have. Each names file
//           and tensor.
// LIFETIME: the views live as long as `file`.
[[nodiscard]] ModelWeights read_weights(const GgufFile& file, const ModelSpec& spec);

}  // namespace inflight
