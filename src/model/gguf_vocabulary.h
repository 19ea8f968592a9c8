// SPDX-License-Identifier: Apache-2.0
// The vocabulary of a GGUF file.
#pragma once

#include "core/vocabulary_data.h"
#include "model/gguf_file.h"

namespace inflight {

// A file without a vocabulary gives one whose `model` is empty.
// ENSURES: scores and types are empty or one a token; every special id is below tokens.size().
//          The texts are as in the file, valid UTF-8 or not.
// ERRORS:  CorruptFile for ill-typed keys, arrays of different lengths, ids and types out of range;
//          each names file and key.
[[nodiscard]] VocabularyData read_vocabulary(const GgufFile& file);

}  // namespace inflight
