// SPDX-License-Identifier: Apache-2.0
// peak_fma.cl: the most fused multiply-adds that a device does, from registers alone: peak_fma_N has 16 * N chains of `steps` of
//   them. 6 fit into 16 registers of 8 floats, 12 keep two units of 16 floats busy.
//   Mapping: a work-item 16 * N chains. What comes out is of no use but that the work is done. Test: tests/cli/kernels_test.py.
#define DEFINE_PEAK_FMA(N)                                                                                     \
  __kernel void peak_fma_##N(__global float* out, int steps)                                                   \
  {                                                                                                            \
    const int item = get_global_id(0);                                                                         \
    const float16 factor = 0.999f + 0.0001f * (float)item;                                                     \
    float16 sum[N];                                                                                            \
    for (int i = 0; i < N; i++) sum[i] = (float)i;                                                             \
    for (int step = 0; step < steps; step++) {                                                                 \
      _Pragma("unroll") for (int i = 0; i < N; i++) sum[i] = fma(sum[i], factor, factor);                      \
    }                                                                                                          \
    float16 all = 0.0f;                                                                                        \
    for (int i = 0; i < N; i++) all += sum[i];                                                                 \
    out[item] = sum_16(all);                                                                                   \
  }
DEFINE_PEAK_FMA(6)
DEFINE_PEAK_FMA(12)
