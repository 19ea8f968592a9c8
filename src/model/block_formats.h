// SPDX-License-Identifier: Apache-2.0
// The block formats that are read only: K-quants, the five-bit and offset formats, and the two tables of four bits. Of
// these kernels compute with Q4_1, Q5_1, Q6_K, IQ4_NL and MXFP4 (tensor_type.h: computed_type).
//
// Layouts and arithmetic are those of GGUF's reference (ggml), f = half scale, little-endian:
//   Q4_1    f d, f m, 16 bytes of nibbles                       x = d q + m
//   Q5_0    f d, u32 fifth bits, 16 bytes of nibbles            x = d (q - 16)
//   Q5_1    f d, f m, u32 fifth bits, 16 bytes of nibbles       x = d q + m
//   IQ4_NL  f d, 16 bytes of nibbles                            x = d table[q]
//   MXFP4   byte e, 16 bytes of nibbles                         x = 2^(e - 128) table[q], its own table (OCP's FP4,
//   doubled)
// and, 256 numbers a block, in sub-blocks with an integer scale s (and minimum m) of their own:
//   Q2_K    16 x (4-bit s, 4-bit m), 64 bytes, f d, f e         x = d s q - e m          sub-blocks of 16
//   Q3_K    32 bytes of third bits (bit n / 32 of byte n % 32), 64 bytes, 16 x 6-bit s, f d
//           x = d (s - 32) (q - 4)                                                       sub-blocks of 16
//   Q4_K    f d, f e, 8 x (6-bit s, 6-bit m), 128 bytes         x = d s q - e m          sub-blocks of 32
//   Q5_K    as Q4_K, with 32 bytes of fifth bits before the nibbles
//   Q6_K    128 bytes of nibbles, 64 bytes of upper bits, 16 x int8 s, f d   x = d s (q - 32)   sub-blocks of 16
//   IQ4_XS  f d, 8 x 6-bit s, 128 bytes of nibbles              x = d (s - 32) table[q]  sub-blocks of 32
#pragma once

#include <cstddef>

#include "model/tensor_type.h"

namespace inflight {

inline constexpr size_t kHalfBlock = kQuantBlock / 2;  // numbers whose nibbles are the lower halves of bytes

// One block to its numbers: unit_of(type) says how many bytes and numbers.
// REQUIRES: type is one of those above.   THREAD: any.   COST: O(numbers), no allocation.
void read_block(TensorType type, const std::byte* block, float* numbers);

// Whether the blocks of computed_type(from) can hold the same numbers q (or table[q]): every format but Q2_K that is
// not computed with itself.
[[nodiscard]] bool keeps_numbers(TensorType from);

// A block as blocks of computed_type(from) with the same numbers: Q5_0 as Q5_1, Q3_K as Q6_K, exact;
// Q4_K as Q4_1, Q5_K as Q5_1, IQ4_XS as IQ4_NL with d s and -e m, or d (s - 32), rounded to half precision.
// REQUIRES: keeps_numbers(from).   ERRORS: InvalidArgument where a scale or minimum is beyond half precision.
// THREAD: any.
void repack_block(TensorType from, const std::byte* block, std::byte* to);

}  // namespace inflight
