// SPDX-License-Identifier: Apache-2.0
// Limits of grammars; all other limits are in base/limits.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace inflight::limits {

inline constexpr size_t kGrammarBytesMax = 1U << 20;
inline constexpr int kGrammarDepthMax = 64;  // nested schemas and groups
inline constexpr int64_t kGrammarRepeatMax = 10'000;
inline constexpr size_t kGrammarInstructionsMax = 400'000;
inline constexpr size_t kGrammarStatesMax = 50'000;       // of one grammar's automaton; beyond, it begins anew
inline constexpr size_t kGrammarMaskWordsMax = 16 << 20;  // of one grammar's kept masks
inline constexpr size_t kGrammarsKept = 64;               // compiled and unused
inline constexpr size_t kForcedBytesMax = 4096;           // that forced_text() gives at once

}  // namespace inflight::limits
