// SPDX-License-Identifier: Apache-2.0
#include "core/sampling_params.h"

#include "base/error.h"
#include "base/limits.h"

namespace inflight {

void SamplingParams::validate() const {
  const auto require = [](bool ok, const char* name, double got, const char* allowed) {
    if (!ok) fail(ErrorCode::InvalidArgument, "{} is {}, allowed: {}", name, got, allowed);
  };
  require(temperature >= 0.0F && temperature <= 100.0F, "temperature", double{temperature}, "0 to 100");
  require(top_k >= 0, "top_k", top_k, "0 (all) or more");
  require(top_p > 0.0F && top_p <= 1.0F, "top_p", double{top_p}, "more than 0, at most 1");
  require(min_p >= 0.0F && min_p <= 1.0F, "min_p", double{min_p}, "0 to 1");
  require(max_tokens >= 1, "max_tokens", max_tokens, "1 or more");
  require(stop_token_ids.size() <= limits::kStopTokensMax, "the number of stop_token_ids",
          static_cast<double>(stop_token_ids.size()), "at most 64");
}

}  // namespace inflight
