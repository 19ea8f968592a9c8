// SPDX-License-Identifier: Apache-2.0
// linear_avx_vnni.cl: linear_avx2.cl, which follows it in a program, with the 8-bit dot product of AVX-VNNI: processors with
// 256-bit vectors that have it, such as Intel's Core since the 12th generation. Contract and panel layouts: linear.cl.
// Test: tests/kernel/linear_test.cpp.
#define AVX_VNNI 1
