// SPDX-License-Identifier: Apache-2.0
// Adapters share no stored prefixes: K and V are the adapter's, too.
#pragma once

#include <cstdint>

#include "cache/radix_tree.h"

namespace inflight {

// Under which salt the prefixes of a request (Request::cache_salt, Request::adapter; 0: none) are stored.
[[nodiscard]] inline uint64_t adapter_salt(uint64_t salt, uint32_t adapter) {
  if (adapter == 0) return salt;
  const TokenId name[] = {static_cast<TokenId>(adapter)};
  return child_key(salt, name);
}

}  // namespace inflight
