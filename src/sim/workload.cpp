// SPDX-License-Identifier: Apache-2.0
#include "sim/workload.h"

#include <algorithm>

namespace inflight {
namespace {

// Two words of 30 bits name a stream: tokens at even positions come from one, at odd positions from the other.
struct StreamWords {
  uint32_t even, odd;
};

StreamWords words_of(uint64_t stream) {
  // The finaliser of SplitMix64 (Steele et al. 2014).
  uint64_t hash = stream + 0x9e3779b97f4a7c15ULL;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ULL;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebULL;
  hash ^= hash >> 31;
  return {static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32)};
}

constexpr uint32_t kStride = 2654435761U;  // odd: positions differ from each other
constexpr uint32_t kMask = 0x3fffffffU;

}  // namespace

TokenId stream_token(uint64_t stream, int32_t position) {
  const StreamWords words = words_of(stream);
  const auto p = static_cast<uint32_t>(position);
  return static_cast<TokenId>(((p % 2 == 0 ? words.even : words.odd) + p * kStride) & kMask);
}

void read_stream(uint64_t stream, int32_t position, std::span<TokenId> tokens) {
  const StreamWords words = words_of(stream);
  const auto first = static_cast<uint32_t>(position);
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    const uint32_t p = first + i;
    tokens[i] = static_cast<TokenId>(((p % 2 == 0 ? words.even : words.odd) + p * kStride) & kMask);
  }
}

void append_stream(uint64_t stream, int32_t position, int32_t count, std::vector<TokenId>& tokens) {
  const size_t begin = tokens.size();
  tokens.resize(begin + static_cast<size_t>(count));
  read_stream(stream, position, std::span(tokens).subspan(begin));
}

int64_t Workload::sequence_tokens_max() const {
  int64_t longest = 0;
  for (const SimRequest& request : requests) {
    longest = std::max(longest, int64_t{request.prompt_tokens} + request.max_tokens);
  }
  return longest;
}

int64_t Workload::output_tokens() const {
  int64_t sum = 0;
  for (const SimRequest& request : requests) sum += request.output_tokens;
  return sum;
}

void Workload::add(SimRequest request, std::span<const ContentSegment> prompt) {
  request.first_segment = static_cast<uint32_t>(segments.size());
  request.segment_count = static_cast<uint32_t>(prompt.size());
  request.prompt_tokens = 0;
  for (const ContentSegment& segment : prompt) request.prompt_tokens += segment.count;
  request.max_tokens = std::max(request.max_tokens, request.output_tokens);
  segments.insert(segments.end(), prompt.begin(), prompt.end());
  requests.push_back(request);
}

StaticBatching static_batching(const Workload& workload, int32_t slots) {
  StaticBatching result;
  const auto width = static_cast<size_t>(slots);
  int64_t slot_cycles = 0;
  for (size_t begin = 0; begin < workload.requests.size(); begin += width) {
    const auto batch = std::span(workload.requests).subspan(begin, std::min(width, workload.requests.size() - begin));
    const int64_t longest = std::ranges::max_element(batch, {}, &SimRequest::output_tokens)->output_tokens;
    result.cycles += longest;
    slot_cycles += longest * static_cast<int64_t>(batch.size());
  }
  if (slot_cycles > 0) {
    result.efficiency = static_cast<double>(workload.output_tokens()) / static_cast<double>(slot_cycles);
  }
  return result;
}

}  // namespace inflight
