// SPDX-License-Identifier: Apache-2.0
// Numbers as blocks of the formats that model files have and that the library only reads.
#pragma once

#include <cstddef>
#include <vector>

namespace inflight::test {

// REQUIRES: whole blocks, of 32 numbers, of K-quants of 256.
[[nodiscard]] std::vector<std::byte> as_q5_0(const std::vector<float>& numbers);
[[nodiscard]] std::vector<std::byte> as_mxfp4(const std::vector<float>& numbers);
[[nodiscard]] std::vector<std::byte> as_q4_1(const std::vector<float>& numbers);
[[nodiscard]] std::vector<std::byte> as_q4_k(const std::vector<float>& numbers);
[[nodiscard]] std::vector<std::byte> as_q6_k(const std::vector<float>& numbers);

}  // namespace inflight::test
