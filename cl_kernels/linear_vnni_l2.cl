// SPDX-License-Identifier: Apache-2.0
// linear_vnni_l2.cl: linear_vnni.cl, which follows it in a program, for processors such as Zen 4: few lines may be under way
// to the first-level cache, so weights are asked for into the second, but where few rows meet floats or 4 or 5 bits; a
// 512-bit instruction takes two cycles, so loads cost nothing beside it, a broadcast of its own does, and rows are operands of
// the products. Contract and panel layouts: linear.cl.
// Test: tests/kernel/linear_test.cpp.
#define BROADCAST_OPERANDS 1
#define ASK_FOR "prefetcht1"
#define FLOATS_AHEAD_FEW 512  // bytes
#define AHEAD_FEW 8           // blocks
