// SPDX-License-Identifier: Apache-2.0
// What one step computes. The scheduler writes a plan, the executor reads it; nobody changes it in between.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/math.h"
#include "core/sampling_params.h"
#include "core/token_counts.h"

namespace inflight {

// decode = the entry computes one token, the sequence's newest, and guesses of what follows it; prefill = any other
// entry, recompute included.
enum class Phase : uint8_t { Prefill, Decode };

// Of a mask with a bit for each token.
[[nodiscard]] constexpr size_t mask_words(int32_t vocabulary_size) {
  return static_cast<size_t>(div_ceil(vocabulary_size, 32));
}

// What changing an entry's logits looks at.   LIFETIME: as BatchEntry's spans.
struct TokenHistory {
  std::span<const TokenId> known_tokens;  // prompt, then output
  std::span<const TokenId> end_tokens;
  const TokenCounts* counts = nullptr;  // of the known tokens; set when the entry samples and penalises()
  // Masks of mask_words(V), of the entry's (first) token and behind each guess, while those before may come: no
  // token may come but t where bit t % 32 of word t / 32 is set, min_tokens included. Empty: any may. Of filtered
  // entries; filled by sample/HostSampler.
  std::span<const uint32_t> allowed = {};

  // Behind `guesses` guesses; empty where there is none.
  [[nodiscard]] std::span<const uint32_t> mask(int32_t guesses, int32_t vocabulary_size) const {
    const size_t width = mask_words(vocabulary_size);
    const size_t begin = static_cast<size_t>(guesses) * width;
    return begin < allowed.size() ? allowed.subspan(begin, width) : std::span<const uint32_t>();
  }
};

// What happens to the state of an entry's sequence besides being taken along in its row. Places: of kept states.
struct StateMoves {
  static constexpr int32_t kKeptMax = 2;
  int32_t from = -1;  // the place whose state it begins with; -1: its row's, or none before the first token
  struct Kept {
    int32_t token_count = 0;  // after so many of the entry's tokens
    int32_t place = 0;        // the state is left there, too
  };
  std::array<Kept, kKeptMax> kept;  // the first kept_count of them, token counts rising
  int32_t kept_count = 0;
};

// One sequence's share of a step: its tokens at positions [computed, computed + scheduled). Every step makes and walks
// through one for each running sequence: kept small.
// LIFETIME: the spans and pointers lead into the scheduler's sequences. Where it needs_host() they are valid
// until the step has been read, after which the scheduler makes its next plan; a commit() of the step before may come
// first and append tokens, which moves none (Sequence::tokens). Else they are valid until Executor::submit() returns.
struct BatchEntry {
  SequenceId sequence{};
  int32_t row = 0;                    // place of the sequence's state on the device, in [0, max_num_seqs)
  int32_t computed_token_count = 0;   // tokens whose K and V are stored when this step begins
  int32_t scheduled_token_count = 0;  // >= 1
  // The last so many of `tokens` are guesses of what follows the newest one (speculative decoding): each of the entry's
  // last 1 + draft_token_count tokens gives a new one. 0 unless a decode; input_on_device and host_samples exclude it.
  // With a draft model the scheduler leaves places for them, which sample/DraftProposer fills.
  int32_t draft_token_count = 0;
  // Ids of the scheduled tokens. One id less than scheduled_token_count when input_on_device.
  std::span<const TokenId> tokens;
  // The last scheduled token is the one that the device sampled for `row` in the step before, not yet read by the host.
  bool input_on_device = false;
  // The last scheduled token is the sequence's newest: its logits give one new token.
  bool samples = false;
  Phase phase = Phase::Prefill;
  // With `samples`: the logits are read back and the host draws the token; the device draws none, and what it reports
  // is overwritten.
  bool host_samples = false;
  uint32_t adapter = 0;  // Request::adapter: whose low-rank products are added for these tokens; 0 = none
  // Logical block -> BlockId; covers ceil(context_token_count() / B) blocks. kNoBlock: wholly before the sliding window
  // of the first scheduled token, and of all that follow.
  std::span<const BlockId> block_table;
  const SamplingParams* sampling = nullptr;  // set when samples or prompt_logprobs_wanted > 0
  // Set when filtered, host_samples, prompt_logprobs_wanted > 0, or it samples and its logits are changed.
  const TokenHistory* history = nullptr;
  const StateMoves* states = nullptr;  // null: nothing happens

  // How likely so many prompt tokens were after those before them is told (StepResult::prompt_logprobs): the last ones
  // of those that follow a token of the entry. 0 = none.
  int32_t prompt_logprobs_wanted = 0;
  // The final hidden states of the entry's last so many tokens are read back (StepResult::hidden); 0 = none.
  int32_t hidden_wanted = 0;
  int32_t prompt_token_count = 0;  // set when `history` is or hidden_wanted > 0
  // With `samples`: which tokens may come the host knows when it knows all before (token filters, bad words). Excludes
  // input_on_device.
  bool filtered = false;

  // The host has a part in its token: the step is read before the next is planned.
  [[nodiscard]] bool needs_host() const { return filtered || host_samples; }

  // Of the first of these prompt tokens.
  [[nodiscard]] int32_t first_told_position() const {
    return std::min(context_token_count(), prompt_token_count - 1) + 1 - prompt_logprobs_wanted;
  }

  // What attention sees at the step's end.
  [[nodiscard]] int32_t context_token_count() const { return computed_token_count + scheduled_token_count; }
  // Of the (first) token that is sampled.
  [[nodiscard]] int32_t sampled_position() const { return context_token_count() - draft_token_count; }
  [[nodiscard]] std::span<const TokenId> drafts() const { return tokens.last(static_cast<size_t>(draft_token_count)); }
};
static_assert(sizeof(void*) != 8 || sizeof(BatchEntry) == 104);

// Copies whole blocks before the step's tokens are computed (copy-on-write).
struct BlockCopy {
  BlockId from{};
  BlockId to{};
};

// Moves a whole block between the device and the host's storage.
struct SwapCopy {
  BlockId device{};
  BlockId host{};  // in [0, host block count)
};

// Order of execution: swap_out, swap_in, copies, then the entries. So a block may be swapped out and given to another
// sequence in the same plan.
struct BatchPlan {
  uint64_t step = 0;               // counts from 1
  std::vector<SwapCopy> swap_out;  // device to host
  std::vector<SwapCopy> swap_in;   // host to device
  std::vector<BlockCopy> copies;
  std::vector<BatchEntry> entries;
  int32_t scheduled_token_count = 0;  // sum over the entries
  int32_t sampled_row_count = 0;      // entries with samples
  int32_t hidden_row_count = 0;       // sum of hidden_wanted
  // Where local layers' K and V of each block lie: a slot, or -1, by BlockId; of the blocks from the first that an
  // entry's first token sees to its last, and of both blocks of a copy, there is one. Empty: in the blocks, like the
  // others'. Valid until Executor::submit() returns.
  std::span<const int32_t> local_slots;
  // Some entry needs_host(): the next plan is made when this step has been read.
  bool read_before_next = false;

  // Nothing to do at all. A plan may also hold copies only.
  [[nodiscard]] bool empty() const { return entries.empty() && swap_out.empty() && swap_in.empty() && copies.empty(); }
  void clear() {
    swap_out.clear();
    swap_in.clear();
    copies.clear();
    entries.clear();
    scheduled_token_count = sampled_row_count = hidden_row_count = 0;
    read_before_next = false;
    local_slots = {};
  }
};

}  // namespace inflight
