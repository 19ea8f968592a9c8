// SPDX-License-Identifier: Apache-2.0
// A model file to what the engine needs of it. Nothing is computed or copied but the vocabulary:
// weights are views.
#pragma once

#include <string>

#include "core/model_spec.h"
#include "core/vocabulary_data.h"
#include "model/gguf_file.h"
#include "model/weights.h"

namespace inflight {

struct LoadedModel {
  GgufFile file;  // owns the mapping that `weights` points into; a move keeps it
  ModelSpec spec;
  VocabularyData vocabulary;  // its `model` is empty when the file has none
  ModelWeights weights;
};

// ENSURES: a vocabulary, if any, has spec.vocabulary_size tokens. Views as read_weights() promises.
// ERRORS:  NotFound, Io, CorruptFile, Unsupported: one line naming the file, the thing, what was
//          found, what is allowed.
// COST:    O(metadata); weight data is read from disk when it is first touched.
[[nodiscard]] LoadedModel load_model(const std::string& path);

// The vocabulary alone, of any GGUF file that has one, whatever its architecture and tensors.
// ERRORS: as load_model; NotFound when the file has none.
[[nodiscard]] VocabularyData load_vocabulary(const std::string& path);

}  // namespace inflight
