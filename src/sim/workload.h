// SPDX-License-Identifier: Apache-2.0
// What the simulator is to serve: requests with arrival times, lengths and contents. Made from a specification
// (workload_spec.h) or from a trace file (trace_reader.h).
//
// Contents are streams of made-up tokens: the token at position p of stream s is a pure function of (s, p), so a prompt
// takes no memory before it is added, equal segments are equal tokens (prefix reuse is real), and the second turn of a
// conversation can hold the answer to the first.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "core/request.h"

namespace inflight {

// The simulated model's end token; no stream holds it.
inline constexpr TokenId kSimEndToken = 0x7fffffff;
// What stands for a wrong guess; no stream holds it.
inline constexpr TokenId kSimWrongToken = kSimEndToken - 1;

// Two words of 30 bits name a stream: tokens at even positions come from one, at odd positions from the other.
struct StreamWords {
  uint32_t even = 0, odd = 0;

  StreamWords() = default;
  explicit StreamWords(uint64_t stream) {
    // The finaliser of SplitMix64 (Steele et al. 2014).
    uint64_t hash = stream + 0x9e3779b97f4a7c15ULL;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ULL;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebULL;
    hash ^= hash >> 31;
    even = static_cast<uint32_t>(hash);
    odd = static_cast<uint32_t>(hash >> 32);
  }
  [[nodiscard]] TokenId token(uint32_t position) const {
    return masked((position % 2 == 0 ? even : odd) + position * kStride);
  }

  static constexpr uint32_t kStride = 2654435761U;  // odd: positions differ from each other
  [[nodiscard]] static constexpr TokenId masked(uint32_t sum) { return static_cast<TokenId>(sum & 0x3fffffffU); }
};

// The token at `position` of a stream.
[[nodiscard]] inline TokenId stream_token(uint64_t stream, int32_t position) {
  return StreamWords(stream).token(static_cast<uint32_t>(position));
}
// Appends the tokens at [position, position + count).
void append_stream(uint64_t stream, int32_t position, int32_t count, std::vector<TokenId>& tokens);

// The same into a span.
void read_stream(const StreamWords& words, int32_t position, std::span<TokenId> tokens);

// Tokens [offset, offset + count) of a stream.
struct ContentSegment {
  uint64_t stream = 0;
  int32_t offset = 0;
  int32_t count = 0;
};

inline constexpr int32_t kNoRequest = -1;
inline constexpr double kSimSecondsMax = 4e9;  // of virtual time: so that ends can be counted too

struct SimRequest {
  TimeNs arrival = 0;          // since the begin; of one with `after`: from the end of that one (thinking time)
  int32_t after = kNoRequest;  // index of the request that must have ended before (the turn before, the same client)
  int32_t after_count = 1;     // and of those just before it, so that so many have (the client's branches)
  int32_t prompt_tokens = 1;
  int32_t output_tokens = 1;            // what it really produces
  int32_t max_tokens = 1;               // what it asks for: all that a scheduler knows; >= output_tokens
  int32_t predicted_output_tokens = 0;  // 0 = none
  int32_t priority = 0;
  uint32_t tenant = 0;
  TimeNs ttft_deadline = kNoDeadline;  // these three from arrival on
  TimeNs e2e_deadline = kNoDeadline;
  TimeNs itl_target = kNoDeadline;
  uint32_t adapter = 0;
  uint64_t cache_salt = 0;
  uint32_t first_segment = 0;  // its prompt: Workload::segments [first, first + count)
  uint32_t segment_count = 0;
  uint32_t output_segment_count = 0;  // those behind the prompt's: its output, where that is known (of a recording)
  uint64_t output_stream = 0;         // where it is not: the token at position p of the sequence is that of the stream

  // Where in the sequence the end token is sampled; 0: it ends by length.
  [[nodiscard]] int32_t end_position() const {
    return output_tokens < max_tokens ? prompt_tokens + output_tokens - 1 : 0;
  }
};

// What a request produces, by position in its sequence.
struct OutputTokens {
  StreamWords stream;
  int32_t end_position = 0;      // where the end token is sampled; 0: nowhere
  int32_t known_begin = 0;       // from here on the known tokens stand in place of the stream's
  std::vector<TokenId> known{};  // without the end token

  [[nodiscard]] TokenId at(int32_t position) const {
    if (position == end_position) return kSimEndToken;
    const auto index = static_cast<size_t>(position - known_begin);  // a position before the output: beyond all
    return index < known.size() ? known[index] : stream.token(static_cast<uint32_t>(position));
  }
  // The same into a span.   REQUIRES: it ends before the end token, and begins in the output.
  void read(int32_t position, std::span<TokenId> tokens) const;
};

struct Workload {
  std::string name;
  std::vector<SimRequest> requests;  // by arrival; one with `after` comes after that one
  std::vector<ContentSegment> segments;
  // Speculative decoding: how likely a guess is right when those before it are; none: nothing is guessed.
  std::optional<double> acceptance{};
  uint64_t seed = 0;  // of which guesses are right
  // Of a recording: it ends before they do, and so does what is known of their output.
  int64_t cut_off_request_count = 0;
  int64_t left_out_request_count = 0;  // of a trace: without prompt or output tokens, so they are not in `requests`

  [[nodiscard]] std::span<const ContentSegment> prompt(const SimRequest& request) const {
    return std::span(segments).subspan(request.first_segment, request.segment_count);
  }
  [[nodiscard]] OutputTokens output(const SimRequest& request) const;
  // The longest sequence: prompt and max_tokens.
  [[nodiscard]] int64_t sequence_tokens_max() const;
  [[nodiscard]] int64_t output_tokens() const;

  // What the request expects in its output (Request::prediction): the output, with a wrong token put in before each one
  // that is guessed wrong, drawn for each position from the workload's seed, so that nothing else that runs has to do
  // with it. Looked up by one token (streams do not repeat themselves) this gives a guess for every position: the right
  // one, or the wrong token. Goes on behind an end token, which nobody who guesses knows of.
  // REQUIRES: acceptance is set.
  [[nodiscard]] std::vector<TokenId> prediction(int32_t request) const;

  // Adds a request whose prompt is the given segments; sets its prompt_tokens. output: where it is known.
  void add(SimRequest request, std::span<const ContentSegment> prompt, std::span<const ContentSegment> output = {});
};

// Who arrives when requests have ended: those that wait for them, in their order.
class Followers {
 public:
  explicit Followers(const Workload& workload);
  [[nodiscard]] bool any() const { return any_; }
  [[nodiscard]] bool any_of(int32_t request) const { return awaited_[static_cast<size_t>(request)] != kNoRequest; }
  // `request` has ended: calls function(follower) for those that wait for no other now.   REQUIRES: once a request.
  template <typename Function>
  void each(int32_t request, Function&& function) {
    const int32_t last = awaited_[static_cast<size_t>(request)];
    if (last == kNoRequest || --left_[static_cast<size_t>(last)] > 0) return;
    for (int32_t it = first_[static_cast<size_t>(last)]; it != kNoRequest; it = next_[static_cast<size_t>(it)]) {
      function(it);
    }
  }

 private:
  bool any_ = false;
  // By request: the `after` of those that wait for it. By `after`: how many have still to end; the first follower. By
  // follower: who follows the same ones.
  std::vector<int32_t> awaited_, left_, first_, next_;
};

// What a batch of `slots` loses when it stays together until its longest member ends: requests in order, batches of
// `slots`, one output token a cycle.   Source: eta = mean(T) / max(T), checklist 129.
struct StaticBatching {
  int64_t cycles = 0;              // sum of the longest outputs
  double efficiency = 0.0;         // output tokens / (members * cycles of their batch)
  double useful_slot_share = 0.0;  // output tokens / (slots * cycles): less where a batch is not full
};
[[nodiscard]] StaticBatching static_batching(const Workload& workload, int32_t slots);

}  // namespace inflight
