// SPDX-License-Identifier: Apache-2.0
// A folder as transformers saves models (config.json, *.safetensors, tokenizer.json), read as the GGUF file that
// llama.cpp's converter makes of it, but for the order of rows that kHalfSplitKey tells. Nothing is converted but
// vectors (norms and biases), which become F32: matrices stay where they are, in the mapped files.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "model/gguf_parser.h"
#include "model/mapped_file.h"

namespace inflight {

// LIFETIME: `tensors` view into the other members, which survive a move.
struct Checkpoint {
  std::vector<MappedFile> files;           // of weights
  std::vector<std::byte> header;           // a GGUF file without tensors
  std::deque<std::string> names;           // of tensors
  std::deque<std::vector<float>> vectors;  // norms and biases
  std::vector<GgufTensor> tensors;
};

// ERRORS: NotFound, Io, CorruptFile, Unsupported; one line that names the file, the thing, what was found and what is
//         allowed.
// COST:   O(JSON files, norms and biases).
[[nodiscard]] Checkpoint read_checkpoint(const std::string& folder);

}  // namespace inflight
