// SPDX-License-Identifier: Apache-2.0
// Which tokens may come next: what grammars and schemas (text/) are to the sampler. One object follows one sequence.
// What allow(), accept(), see() and take_forced() throw ends the request with reason error.
// THREAD: the engine thread only, once the request is submitted.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"

namespace inflight {

class TokenFilter {
 public:
  TokenFilter() = default;
  TokenFilter& operator=(const TokenFilter&) = delete;
  virtual ~TokenFilter() = default;

  // Sets bit t % 32 of allowed[t / 32] for each token t that may come next, end tokens where the text may end here, and
  // clears all others. At least one bit is set.   allowed: ceil(V / 32) words.
  virtual void allow(std::span<uint32_t> allowed) = 0;

  // `token`, one of those allowed, is the next one.
  virtual void accept(TokenId token) = 0;

  // Whether tokens are drawn under it now. One that sleeps lets everything come.
  [[nodiscard]] virtual bool is_awake() const { return true; }
  // A token that came while it was asleep.  True: the token after the next one is the first to be drawn under it, or
  // none if the next one, which may be on its way already, does not fit.
  [[nodiscard]] virtual bool see([[maybe_unused]] TokenId token) { return false; }

  // The tokens that are certain to come next, now accepted; none where there is a choice, or the text may end.
  [[nodiscard]] virtual std::vector<TokenId> take_forced() { return {}; }

  // Another one in the same state, for a further answer to the same prompt.
  [[nodiscard]] virtual std::unique_ptr<TokenFilter> clone() const = 0;
  // Another one in the same state, to look ahead with, at little cost: this one is not used until that one is gone.
  [[nodiscard]] virtual std::unique_ptr<TokenFilter> ahead() { return clone(); }

 protected:
  TokenFilter(const TokenFilter&) = default;
};

}  // namespace inflight
