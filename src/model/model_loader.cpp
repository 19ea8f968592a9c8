// SPDX-License-Identifier: Apache-2.0
#include "model/model_loader.h"

#include <utility>

#include "base/error.h"
#include "model/gguf_spec.h"
#include "model/gguf_vocabulary.h"
#include "model/gguf_weights.h"

namespace inflight {

LoadedModel load_model(const std::string& path) {
  GgufFile file(path);
  ModelSpec spec = read_spec(file);
  ModelWeights weights = read_weights(file, spec);
  for (const MappedFile& part : file.parts()) weights.files.push_back(part.identity());
  VocabularyData vocabulary = read_vocabulary(file);
  if (!vocabulary.model.empty() && vocabulary.tokens.size() != static_cast<size_t>(spec.vocabulary_size)) {
    fail(ErrorCode::CorruptFile, "{}: the vocabulary has {} tokens, but tensor 'token_embd.weight' {} rows", path,
         vocabulary.tokens.size(), spec.vocabulary_size);
  }
  return {std::move(file), std::move(spec), std::move(vocabulary), std::move(weights)};
}

VocabularyData load_vocabulary(const std::string& path) {
  VocabularyData vocabulary = read_vocabulary(GgufFile(path));
  if (vocabulary.model.empty()) {
    fail(ErrorCode::NotFound, "{}: has no vocabulary (metadata key 'tokenizer.ggml.model')", path);
  }
  return vocabulary;
}

}  // namespace inflight
