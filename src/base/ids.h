// SPDX-License-Identifier: Apache-2.0
// Identifiers. Strong types where mixing two up would go unnoticed; plain int32_t for what arithmetic is done on.
#pragma once

#include <cstdint>

namespace inflight {

// Unique for the life of the process, increasing in order of arrival.
enum class RequestId : uint64_t {};
// One growing token list. n samples of one request are n sequences.
enum class SequenceId : uint64_t {};
// Index of a KV block in [0, block count).
enum class BlockId : int32_t {};
inline constexpr BlockId kNoBlock{-1};  // in a block table: nothing is held there any more

// Vocabulary index in [0, V).
using TokenId = int32_t;

[[nodiscard]] constexpr uint64_t to_integer(RequestId id) { return static_cast<uint64_t>(id); }
[[nodiscard]] constexpr uint64_t to_integer(SequenceId id) { return static_cast<uint64_t>(id); }
[[nodiscard]] constexpr int32_t to_integer(BlockId id) { return static_cast<int32_t>(id); }

}  // namespace inflight
