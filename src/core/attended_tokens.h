// SPDX-License-Identifier: Apache-2.0
// What tokens of a sequence attend to, with a window or without, and how much attention that is.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace inflight {

// The first position that the token at `position` attends to. window: it sees the last so many tokens, itself included;
// 0 = all.
[[nodiscard]] inline int32_t first_attended(int32_t position, int32_t window) {
  return window == 0 ? 0 : std::max(position - window + 1, 0);
}

// Pairs of a query among `count` tokens and a token that it attends to, a layer and head; the queries begin at position
// `computed`. sliding_window: each sees the last so many tokens, itself included; 0 = all.
[[nodiscard]] inline int64_t attended_tokens(int32_t computed, int32_t count, int32_t sliding_window) {
  if (sliding_window == 0) return int64_t{count} * computed + (int64_t{count} * (count + 1) >> 1);
  // Those whose window reaches back to position 0 see position + 1 tokens, the others the whole window.
  const int32_t growing = std::clamp(sliding_window - computed, 0, count);
  return int64_t{growing} * computed + int64_t{growing} * (growing + 1) / 2 + int64_t{count - growing} * sliding_window;
}

// What a model's layers see (ModelSpec).
struct AttentionWindows {
  int32_t sliding_window = 0;  // in all layers
  int32_t local_window = 0;    // in local layers, where there are any
  double local_share = 0.0;    // of the KV heads of all layers, those of local ones; 0: there are none
};

// The mean over the layers, each as often as it has KV heads, to the next whole number.
[[nodiscard]] inline int64_t attended_tokens(int32_t computed, int32_t count, const AttentionWindows& windows) {
  const int64_t pairs = attended_tokens(computed, count, windows.sliding_window);
  if (windows.local_share == 0.0) return pairs;
  const int64_t unseen = pairs - attended_tokens(computed, count, windows.local_window);
  return pairs - std::llround(windows.local_share * static_cast<double>(unseen));
}

}  // namespace inflight
