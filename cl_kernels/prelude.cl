// SPDX-License-Identifier: Apache-2.0
// prelude.cl: comes before every kernel file.
//   Floating-point contraction is off: a*b+c is rounded twice wherever the source says so and once where it says fma(),
//   on every device and in every variant of a kernel. Outputs are bitwise reproducible because of it.
#pragma OPENCL FP_CONTRACT OFF
