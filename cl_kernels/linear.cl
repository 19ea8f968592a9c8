// SPDX-License-Identifier: Apache-2.0
// linear.cl: rows of activations times one or two panels of 16 outputs of a weight matrix; portable.
//
//   acc_a[r][n] = sum_k x[row0 + r, k] * w[16 * panel + n, k]    0 <= r < rows, 0 <= n < 16; acc_b likewise, of panel b
//
// CONTRACT of linear_tile(), whichever file provides it (src/ops/linear_choice.h; this one runs everywhere):
//   - A work-item calls linear_begin() before its first linear_tile() and linear_end() behind its last.
//   - rows in [1, LINEAR_ROWS]; acc_a and acc_b have LINEAR_ROWS elements, those at >= rows may hold anything afterwards.
//     b may be null: then acc_b is left alone. Both panels are of one type and depth, not necessarily of one matrix.
//   - The order in which a row's products are added depends on the weight's type only: never on `rows` or on other rows.
//   - F32, F16, BF16 read in->x [T][K] f32. The others read the rows quantised to int8 in blocks of 32 along K, block by
//     block: in->q [K/32][T][32] in -127..127, in->scale [K/32][T] f32, in->sum [K/32][T][2] int for kernels whose weights are
//     biased: the first two int16, the low one -8 * the sum of the block's int8 at depths 4i and 4i+1, the high one that at
//     4i+2 and 4i+3; the second -8 * the sum of all. T is in->rows. Per block, dot = exact integer, then
//     acc = fma(dot, d_weight * scale, acc), blocks in order. Q4_1 and Q5_1 then acc = fma(-0.125 * m_weight, sum * scale, acc)
//     with the second of in->sum. Q6_K: a block's two halves of 16 depths one after the other, each with its d_weight.
//   - NaN and infinity in the input reach both (quantised rows carry them in the scale).
// Panels, as packed by src/ops/panel.cpp (outputs beyond N are zero):
//   F32, F16, BF16: [k][16 outputs].
//   Q8_0: per block of 32 depths 16 half scales, then 512 int8 in [k/4][16 outputs][4 depths].
//   Q4_0: per block 16 half scales, then 256 bytes in [4][16 outputs][4]: byte (i, n, j) holds depth 4i+j in its low and
//         16+4i+j in its high nibble, each biased by 8.
//   Q4_1: per block 16 half scales, 16 half minima, then the same 256 bytes, without bias: a number is d * nibble + m.
//   Q5_1: between minima and nibbles 64 bytes [16 outputs][4]: bit i of byte (n, j) is bit 4 of the number at depth 4i+j.
//   Q6_K: per block 16 half scales of the depths 0..15, 16 of 16..31, then 128 bytes in [2][16 outputs][4]: bits 2i and 2i+1 of
//         byte (h, n, j) are bits 4 and 5 of the number at depth 16h+4i+j, biased by 32; then the nibbles.
//   IQ4_NL: as Q4_0, but nibbles stand for the numbers of a table (stage.cl).
//   MXFP4: per block 16 bytes e, scale 2^(e - 127), 0 for e = 0; then such nibbles, with a table of its own.
// Accumulation: float; tolerance against the double reference 1e-5 of the sum of magnitudes (int8 rows taken as exact).
// Test: tests/kernel/linear_test.cpp.

// LINEAR_ROWS is 4, or 1 by -D where the compiler takes minutes over the larger tile.
#ifndef LINEAR_ROWS
#define LINEAR_ROWS 4
#endif

// ROWS is a literal, so that acc stays in registers.
#define DEFINE_TILES(ROWS)                                                                                       \
  static void tile_floats_##ROWS(int type, __global const uchar* panel, const LinearInput* in, int row0, int depth, \
                                 float16* out)                                                                   \
  {                                                                                                              \
    __global const float* x = in->x + (size_t)row0 * depth;                                                      \
    float16 acc[ROWS];                                                                                           \
    _Pragma("unroll") for (int r = 0; r < ROWS; r++) acc[r] = 0.0f;                                              \
    for (int k = 0; k < depth; k++) {                                                                            \
      float16 w;                                                                                                 \
      if (type == TYPE_F16) {                                                                                    \
        w = vload_half16(k, (__global const half*)panel);                                                        \
      } else if (type == TYPE_F32) {                                                                             \
        w = vload16(k, (__global const float*)panel);                                                            \
      } else {                                                                                                   \
        w = as_float16(convert_uint16(vload16(k, (__global const ushort*)panel)) << (uint16)(16));               \
      }                                                                                                          \
      _Pragma("unroll") for (int r = 0; r < ROWS; r++) acc[r] = fma(w, (float16)(x[(size_t)r * depth + k]), acc[r]); \
    }                                                                                                            \
    _Pragma("unroll") for (int r = 0; r < ROWS; r++) out[r] = acc[r];                                            \
  }                                                                                                              \
  static void tile_bytes_##ROWS(int type, __global const uchar* panel, const LinearInput* in, int row0, int depth, \
                                float16* out)                                                                    \
  {                                                                                                              \
    const int blocks = depth / 32;                                                                               \
    __global const int* x = (__global const int*)in->q + (size_t)row0 * 8;                                       \
    __global const float* scale = in->scale + row0;                                                              \
    float16 acc[ROWS];                                                                                           \
    _Pragma("unroll") for (int r = 0; r < ROWS; r++) acc[r] = 0.0f;                                              \
    for (int b = 0; b < blocks; b++) {                                                                           \
      const int two = has_two_halves(type);                                                                      \
      const float16 d = scales_16(type, panel);                                                                  \
      const float16 e = two ? vload_half16(1, (__global const half*)panel) : d; /* second scale, or minimum */   \
      __global const int* bytes = (__global const int*)(panel + head_bytes(type));                               \
      panel += panel_bytes(type, 32);                                                                            \
      int16 dot[ROWS];                                                                                           \
      _Pragma("unroll") for (int r = 0; r < ROWS; r++) dot[r] = 0;                                               \
      for (int k4 = 0; k4 < 8; k4++) {                                                                           \
        const int16 w = type == TYPE_Q8_0 ? vload16(k4, bytes) : four_numbers_16(type, bytes, k4);               \
        _Pragma("unroll") for (int r = 0; r < ROWS; r++) {                                                       \
          const int v = x[((size_t)b * in->rows + r) * 8 + k4];                                                  \
          dot[r] += ((w << 24) >> 24) * ((v << 24) >> 24) + ((w << 16) >> 24) * ((v << 16) >> 24) +              \
                    ((w << 8) >> 24) * ((v << 8) >> 24) + (w >> 24) * (v >> 24);                                 \
          if (type == TYPE_Q6_K && k4 == 3) {                                                                    \
            acc[r] = fma(convert_float16(dot[r]), d * scale[(size_t)b * in->rows + r], acc[r]);                  \
            dot[r] = 0;                                                                                          \
          }                                                                                                      \
        }                                                                                                        \
      }                                                                                                          \
      _Pragma("unroll") for (int r = 0; r < ROWS; r++) {                                                         \
        const size_t at = (size_t)b * in->rows + r;                                                              \
        acc[r] = fma(convert_float16(dot[r]), (type == TYPE_Q6_K ? e : d) * scale[at], acc[r]);                  \
        if (two && type != TYPE_Q6_K) {                                                                          \
          acc[r] = fma(e * -0.125f, (float16)((float)in->sum[(row0 + at) * 2 + 1] * scale[at]), acc[r]);         \
        }                                                                                                        \
      }                                                                                                          \
    }                                                                                                            \
    _Pragma("unroll") for (int r = 0; r < ROWS; r++) out[r] = acc[r];                                            \
  }
DEFINE_TILES(1)
#if LINEAR_ROWS == 4
DEFINE_TILES(4)
#endif

static void linear_panel(int type, __global const uchar* panel, const LinearInput* in, int row0, int rows, int depth,
                        float16* acc)
{
  const int bytes = !HAS_FLOATS || (HAS_BLOCKS && takes_bytes(type));
#if LINEAR_ROWS == 4
  if (rows == 4) {
    if (bytes) {
      tile_bytes_4(type, panel, in, row0, depth, acc);
    } else {
      tile_floats_4(type, panel, in, row0, depth, acc);
    }
    return;
  }
#endif
  for (int r = 0; r < rows; r++) {
    if (bytes) {
      tile_bytes_1(type, panel, in, row0 + r, depth, acc + r);
    } else {
      tile_floats_1(type, panel, in, row0 + r, depth, acc + r);
    }
  }
}

static void linear_begin(void) {}
static void linear_end(void) {}

static void linear_tile(int type, __global const uchar* a, __global const uchar* b, const LinearInput* in, int row0, int rows,
                        int depth, float16* acc_a, float16* acc_b)
{
  for (int p = 0; p < (b ? 2 : 1); p++) linear_panel(type, p ? b : a, in, row0, rows, depth, p ? acc_b : acc_a);
}
