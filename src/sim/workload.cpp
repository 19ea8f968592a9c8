// SPDX-License-Identifier: Apache-2.0
#include "sim/workload.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "base/rng.h"

namespace inflight {

void read_stream(const StreamWords& words, int32_t position, std::span<TokenId> tokens) {
  const auto begin = static_cast<uint32_t>(position);
  const uint32_t first = begin % 2 == 0 ? words.even : words.odd, second = begin % 2 == 0 ? words.odd : words.even;
  // By pairs, so that no token asks which word is its own: the compiler makes vectors of them.
  TokenId* const out = tokens.data();
  const size_t pairs = tokens.size() / 2;
  uint32_t offset = begin * StreamWords::kStride;
  for (size_t i = 0; i < pairs; ++i) {
    out[2 * i] = StreamWords::masked(first + offset);
    out[2 * i + 1] = StreamWords::masked(second + offset + StreamWords::kStride);
    offset += 2 * StreamWords::kStride;
  }
  if (tokens.size() % 2 != 0) out[2 * pairs] = StreamWords::masked(first + offset);
}

void append_stream(uint64_t stream, int32_t position, int32_t count, std::vector<TokenId>& tokens) {
  const size_t begin = tokens.size();
  tokens.resize(begin + static_cast<size_t>(count));
  read_stream(StreamWords(stream), position, std::span(tokens).subspan(begin));
}

void OutputTokens::read(int32_t position, std::span<TokenId> tokens) const {
  const auto begin = static_cast<size_t>(position - known_begin);
  const size_t count = begin < known.size() ? std::min(known.size() - begin, tokens.size()) : 0;
  std::copy_n(known.begin() + static_cast<ptrdiff_t>(count > 0 ? begin : 0), count, tokens.begin());
  read_stream(stream, position + static_cast<int32_t>(count), tokens.subspan(count));
}

OutputTokens Workload::output(const SimRequest& request) const {
  OutputTokens output{.stream = StreamWords(request.output_stream),
                      .end_position = request.end_position(),
                      .known_begin = request.prompt_tokens};
  const size_t first = size_t{request.first_segment} + request.segment_count;
  for (const ContentSegment& segment : std::span(segments).subspan(first, request.output_segment_count)) {
    append_stream(segment.stream, segment.offset, segment.count, output.known);
  }
  return output;
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

std::vector<TokenId> Workload::prediction(int32_t index) const {
  const SimRequest& request = requests[static_cast<size_t>(index)];
  Rng rng(seed * 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(index));
  const int32_t count = std::min(request.max_tokens, request.output_tokens + limits::kDraftTokensMax);
  const OutputTokens output = this->output(request);
  std::vector<TokenId> tokens;
  tokens.reserve(2 * static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) {
    const bool guessed_wrong =
        i > 0 && !rng.chance(*acceptance);  // the first one comes with the prompt: nobody guesses
    if (guessed_wrong) tokens.push_back(kSimWrongToken);
    tokens.push_back(output.at(request.prompt_tokens + i));
  }
  return tokens;
}

void Workload::add(SimRequest request, std::span<const ContentSegment> prompt, std::span<const ContentSegment> output) {
  request.first_segment = static_cast<uint32_t>(segments.size());
  request.segment_count = static_cast<uint32_t>(prompt.size());
  request.output_segment_count = static_cast<uint32_t>(output.size());
  request.prompt_tokens = 0;
  for (const ContentSegment& segment : prompt) request.prompt_tokens += segment.count;
  request.max_tokens = std::max(request.max_tokens, request.output_tokens);
  segments.insert(segments.end(), prompt.begin(), prompt.end());
  segments.insert(segments.end(), output.begin(), output.end());
  requests.push_back(request);
}

Followers::Followers(const Workload& workload)
    : awaited_(workload.requests.size(), kNoRequest),
      left_(workload.requests.size(), 0),
      first_(workload.requests.size(), kNoRequest),
      next_(workload.requests.size(), kNoRequest) {
  for (size_t i = workload.requests.size(); i-- > 0;) {
    const SimRequest& request = workload.requests[i];
    if (request.after == kNoRequest) continue;
    any_ = true;
    const auto last = static_cast<size_t>(request.after);
    next_[i] = std::exchange(first_[last], static_cast<int32_t>(i));
    if (next_[i] != kNoRequest) continue;  // those it waits for are known
    left_[last] = request.after_count;
    for (size_t k = 0; k < static_cast<size_t>(request.after_count); ++k) awaited_[last - k] = request.after;
  }
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
    const auto tokens = static_cast<double>(workload.output_tokens());
    result.efficiency = tokens / static_cast<double>(slot_cycles);
    result.useful_slot_share = tokens / static_cast<double>(result.cycles * slots);
  }
  return result;
}

}  // namespace inflight
