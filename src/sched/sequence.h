// SPDX-License-Identifier: Apache-2.0
// One growing token list with its block table: all the state that the scheduler has about a request.
//
// Token counts, always  computed <= known:
//   [0, prompt_token_count)        given by the client
//   [.., tokens.size())            known to the host
//   [.., known_token_count())      plus those sampled on the device and not yet read
//   [0, computed_token_count)      K and V are stored, or will be by a step that is submitted
// Prefill, chunk, decode and recompute are the same: a step moves computed towards known.
// THREAD: the engine thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "cache/radix_tree.h"
#include "core/batch_plan.h"
#include "core/request.h"

namespace inflight {

enum class SequenceState : uint8_t {
  Held,       // a further choice: waits for the first one to have its first token, see scheduler_choices.cpp
  Waiting,    // never admitted
  Running,    // has a row and blocks
  Preempted,  // was running; waits to be computed again, or to be copied back from host memory
  Finished,   // its slot is about to be reused
};

// Order among waiting sequences: smallest (key0, key1, request id, choice) first.
struct WaitingKey {
  int64_t key0 = 0;
  int64_t key1 = 0;
};

inline constexpr TimeNs kNotYet = -1;

// Of a model whose sequences have states: where this one's comes from, and behind which of its blocks it is to be kept.
struct SequenceStates {
  struct Point {
    int32_t block_count = 0;
    int32_t place = -1;  // -1: not computed yet
    uint64_t step = 0;   // that computes it
    bool kept = false;   // the block is in the tree
    bool of_output = false;
  };
  int32_t from = -1;          // the place that its next entry begins with
  std::vector<Point> points;  // by block count
  StateMoves moves;           // of the entry being planned
};

struct alignas(64) Sequence {
  // What every step reads and writes of a decoding sequence comes first: two cache lines.
  // They have room for token_limit tokens from the start and never move: a step in flight whose logits the host reads
  // is still read from here when the step before it is committed.
  std::vector<TokenId> tokens;
  std::vector<BlockId> block_table;
  SequenceId id{};
  int32_t computed_token_count = 0;
  int32_t unread_token_count = 0;  // sampled by submitted steps, not yet committed

  SequenceState state = SequenceState::Finished;
  bool may_stop = false;  // it has tokens that end it
  bool pools = false;     // request.pooling is not None
  bool plain = false;     // nothing but its tokens is ever computed or changed
  int32_t prompt_token_count = 0;
  int32_t token_limit = 0;            // finishes by length when this many tokens are known
  int32_t slot = 0;                   // dense, reused; names the sequence to policies and to the engine's table
  int32_t row = 0;                    // place on the device while running
  int32_t choice = 0;                 // which answer to the request's prompt
  int32_t published_block_count = 0;  // the first blocks of the table that are in the radix tree
  uint32_t adapter = 0;               // request.adapter
  TimeNs first_token_time = kNotYet;
  TimeNs last_token_time = kNotYet;

  int32_t filtered_from = 0;               // the first output token of which the host says which may come
  int32_t next_choice_slot = -1;           // the request's next live sequence; -1 = this is the last
  int32_t released_block_count = 0;        // the first blocks of the table that are kNoBlock: behind the sliding window
  int32_t slots_begin = 0, slots_end = 0;  // of the table, the blocks whose local slots it holds (KvBlocks)
  // While guesses are computed: the newest token, then the guesses; else empty.
  std::vector<TokenId> guessed;
  int32_t draft_limit = 0;          // guesses next time at most
  int32_t filter_wakes_at = 0;      // the first output token under the filter, as it woke last; no guesses before it
  bool may_need_host = false;       // to say which tokens may come, or to draw them
  std::vector<PrefixKey> keys;      // of each full block of `tokens` that may be in the radix tree
  std::vector<BlockId> host_table;  // swapped out: logical index -> block in host memory, or kNoBlock; else empty
  int32_t swapped_token_count = 0;  // tokens whose K and V they hold

  Request request;                        // its prompt has moved to `tokens`
  std::unique_ptr<TokenHistory> history;  // what its newest entry in a plan points at; null: none needed it
  std::unique_ptr<TokenCounts> counts;    // of `tokens`, as far as a plan needed them; null: none did
  WaitingKey waiting_key;
  int32_t waiting_index = 0;  // place in the waiting list's heap
  int32_t passed_count = 0;   // how many were admitted past it while it waited for what others hold

  // While it waits and the policy looks at prefixes (PrefixWatch): how much of it is stored.
  int32_t stored_prefix_block_count = 0;
  BlockId stored_prefix_end = kNoBlock;  // the last stored block

  uint64_t admission_step = 0;       // the plan that last admitted it
  uint64_t fork_step = 0;            // the plan in which another choice was last about to share its blocks
  int32_t prompt_logprob_count = 0;  // prompt logprobs planned: of the tokens at positions 1..count

  std::unique_ptr<SequenceStates> states;  // null: the model has none

  // For metrics and policies.
  int32_t prefix_hit_token_count = 0;   // of the prompt, at the first admission
  int32_t predicted_output_tokens = 0;  // in all; 0 = no estimate
  int32_t preemption_count = 0;
  int32_t draft_token_count = 0;       // guesses that were verified
  int32_t accepted_token_count = 0;    // of these, right ones
  int32_t lost_token_count = 0;        // computed tokens that the last preemption dropped
  int32_t recomputed_token_count = 0;  // computed again after preemptions
  TimeNs queued_time = 0;              // when it last began to wait
  TimeNs first_scheduled_time = kNotYet;

  // Into the CPU's caches: what every step reads and writes, and the keys; with these there, the ends of its lists.
  void prefetch() const {
    for (size_t line = 0; line < 4; ++line) __builtin_prefetch(reinterpret_cast<const char*>(this) + 64 * line, 1);
  }
  void prefetch_ends() const {
    __builtin_prefetch(tokens.data() + tokens.size(), 1);
    __builtin_prefetch(block_table.data() + block_table.size(), 1);
    __builtin_prefetch(keys.data() + keys.size(), 1);
  }

  // False: of this one's request, which it is the first choice of, nothing was ever admitted.
  [[nodiscard]] bool request_has_begun() const { return state != SequenceState::Waiting || choice > 0; }
  [[nodiscard]] int32_t known_token_count() const { return static_cast<int32_t>(tokens.size()) + unread_token_count; }
  // Blocks that may be taken as stored: full ones before the newest token, which is always computed since its logits
  // are wanted.   width: tokens of a block.
  [[nodiscard]] size_t skippable_block_count(int32_t width) const {
    const int32_t whole = (static_cast<int32_t>(tokens.size()) - 1) / width;
    return std::min(keys.size(), static_cast<size_t>(whole));
  }
  [[nodiscard]] int32_t output_token_count() const { return static_cast<int32_t>(tokens.size()) - prompt_token_count; }
  [[nodiscard]] int32_t held_block_count() const {
    return static_cast<int32_t>(block_table.size()) - released_block_count;
  }
  [[nodiscard]] int32_t remaining_token_count() const { return known_token_count() - computed_token_count; }
  // Of the output token that comes next the host says which it may be.
  [[nodiscard]] bool is_filtered() const { return known_token_count() - prompt_token_count >= filtered_from; }
  [[nodiscard]] bool wants_prompt_logprobs() const {
    return request.sampling.prompt_logprobs >= 0 && prompt_logprob_count < prompt_token_count - 1;
  }
  // The tokens in flight will bring it to its length limit: nothing more to compute.
  [[nodiscard]] bool reaches_limit() const { return known_token_count() >= token_limit; }
};

}  // namespace inflight
