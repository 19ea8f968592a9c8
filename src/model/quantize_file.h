// SPDX-License-Identifier: Apache-2.0
// A GGUF file to one of another number format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "model/tensor_type.h"

namespace inflight {

struct QuantizeOptions {
  std::string input_path;
  std::string output_path;  // replaced when it exists; appears whole or not at all
  TensorType type = TensorType::Q8_0;
};

struct QuantizeProgress {
  std::string_view tensor;  // being converted
  size_t done_bytes = 0;    // of input
  size_t total_bytes = 0;
};

struct QuantizeResult {
  int32_t converted_count = 0;  // tensors
  int32_t kept_count = 0;       // copied as they were
  size_t input_bytes = 0;       // of the files
  size_t output_bytes = 0;
};

// Which tensors become what (llama-quantize's choice, apart from its mixes of types):
//   matrices: "*.weight" of two or more dimensions, no norm, no expert router   -> `type`, or F16
//     where rows are no multiple of the 32 numbers of a quantised type's block
//   the logits' matrix (output.weight, else token_embd.weight) for type Q4_0    -> Q8_0: its errors
//     go straight into the logits
//   norms, biases and others of a supported type                                -> F32
//   those that have the type already, or one this build cannot read             -> copied
// Metadata stays, in order; general.file_type and general.quantization_version are set. The file is
// GGUF version 3.
//
// `progress` is called on this thread, for every few MB; an exception of its own ends the work.
// ERRORS: as GgufFile; InvalidArgument when both paths are one file; Unsupported for a matrix of a
//         type this build cannot read; CorruptFile for numbers that are not finite or too large for
//         `type`; Io. Nothing is left behind.
// COST:   one pass over the file on all cores; memory: tens of MB.
QuantizeResult quantize_file(const QuantizeOptions& options,
                             const std::function<void(const QuantizeProgress&)>& progress);

}  // namespace inflight
