// SPDX-License-Identifier: Apache-2.0
// linear_vnni_l2.cl: linear_vnni.cl, which follows it in a program, asking for weights into the second-level cache: for
// processors on which few lines may be under way to the first, such as Zen 4. Contract and panel layouts: linear.cl.
// Test: tests/kernel/linear_test.cpp.
#define ASK_FOR "prefetcht1"
