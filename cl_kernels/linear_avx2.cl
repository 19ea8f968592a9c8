// SPDX-License-Identifier: Apache-2.0
// linear_avx2.cl: linear_tile() for x86 processors with AVX2, FMA and F16C; contract and panel layouts: linear.cl. Gives the
// same bits as linear.cl does.
//   The inner products are inline assembly: the compiler's own schedule spills the sums. A tile is 16 outputs (two registers)
//   times up to 4 rows (integers) or 6 (floats); rows are split evenly, so that every tile has work for the whole pipeline.
//   Q8_0: |w| (unsigned) times x with the sign of w, pairs added in 16 bits: 2 * 128 * 127 < 2^15, so exact for every int8.
//   Q4_0: nibbles 0..15 times x; the 16 products of a lane and their -8 * x stay below 2^15, so a block is summed in 16 bits.
//   For several rows a stretch of the panel is decoded once into a scratch that stays in the first-level cache.
//   Measured on 2 cores of a Zen 3 EPYC: see docs/PERFORMANCE.md.
// Test: tests/kernel/linear_test.cpp.
#define LINEAR_ROWS 48
#define STRETCH_DEPTH 256  // floats decoded at once: 16 KiB
#define STRETCH_BLOCKS 16  // blocks decoded at once: 8 KiB of bytes
#define INLINE static inline __attribute__((always_inline))

// Rows a..d of a tile: two sums each.
#define SUMS_1 [a0] "+x"(sum[0]), [a1] "+x"(sum[1])
#define SUMS_2 SUMS_1, [b0] "+x"(sum[2]), [b1] "+x"(sum[3])
#define SUMS_3 SUMS_2, [c0] "+x"(sum[4]), [c1] "+x"(sum[5])
#define SUMS_4 SUMS_3, [d0] "+x"(sum[6]), [d1] "+x"(sum[7])
#define SUMS_5 SUMS_4, [e0] "+x"(sum[8]), [e1] "+x"(sum[9])
#define SUMS_6 SUMS_5, [f0] "+x"(sum[10]), [f1] "+x"(sum[11])
#define EACH_1(ROW) ROW("(%[x])", "a")
#define EACH_2(ROW) EACH_1(ROW) ROW("(%[x],%[s])", "b")
#define EACH_3(ROW) EACH_2(ROW) ROW("(%[x],%[s],2)", "c")
#define EACH_4(ROW) EACH_3(ROW) ROW("(%[y])", "d")
#define EACH_5(ROW) EACH_4(ROW) ROW("(%[y],%[s])", "e")
#define EACH_6(ROW) EACH_5(ROW) ROW("(%[y],%[s],2)", "f")
// x: first row, s: bytes from a row to the next, y: fourth row.
#define ROW_INPUTS [x] "r"(x), [s] "r"((long)stride), [y] "r"(x + 3 * (long)stride)
#define SCRATCH_REGISTERS "ymm8", "ymm9", "ymm10", "ymm11", "ymm12", "ymm13", "ymm14", "memory"

// One block of 32 depths: 8 steps of 4 depths, j = 0..7; ymm8 and ymm9 hold the weights of outputs 0..7 and 8..15.
#define Q8_ROW(at, row)                                                                       \
  "vpbroadcastd 4*\\j" at ", %%ymm12\n"                                                       \
  "vpsignb %%ymm8, %%ymm12, %%ymm13\n"                                                        \
  "vpsignb %%ymm9, %%ymm12, %%ymm14\n"                                                        \
  "vpmaddubsw %%ymm13, %%ymm10, %%ymm13\n"                                                    \
  "vpmaddubsw %%ymm14, %%ymm11, %%ymm14\n"                                                    \
  "vpmaddwd %[ones], %%ymm13, %%ymm13\n"                                                      \
  "vpmaddwd %[ones], %%ymm14, %%ymm14\n"                                                      \
  "vpaddd %%ymm13, %[" row "0], %[" row "0]\n"                                                \
  "vpaddd %%ymm14, %[" row "1], %[" row "1]\n"
#define DEFINE_Q8_DOT(ROWS)                                                                   \
  INLINE void q8_dot_##ROWS(__global const uchar* w, __global const char* x, int stride, int8* sum) \
  {                                                                                           \
    __asm__(".irp j,0,1,2,3,4,5,6,7\n"                                                        \
            "vmovdqu 64*\\j(%[w]), %%ymm8\n"                                                  \
            "vmovdqu 64*\\j+32(%[w]), %%ymm9\n"                                               \
            "vpabsb %%ymm8, %%ymm10\n"                                                        \
            "vpabsb %%ymm9, %%ymm11\n" EACH_##ROWS(Q8_ROW) ".endr\n"                          \
            : SUMS_##ROWS                                                                     \
            : [w] "r"(w), ROW_INPUTS, [ones] "x"((int8)(0x00010001))                          \
            : SCRATCH_REGISTERS);                                                             \
  }

#define Q4_ADD(row)                                                                           \
  "vpmaddubsw %%ymm12, %%ymm10, %%ymm13\n"                                                    \
  "vpmaddubsw %%ymm12, %%ymm11, %%ymm14\n"                                                    \
  "vpaddw %%ymm13, %[" row "0], %[" row "0]\n"                                                \
  "vpaddw %%ymm14, %[" row "1], %[" row "1]\n"
#define Q4_LOW(at, row) "vpbroadcastd 4*\\j" at ", %%ymm12\n" Q4_ADD(row)
#define Q4_HIGH(at, row) "vpbroadcastd 16+4*\\j" at ", %%ymm12\n" Q4_ADD(row)
// From the panel.
#define DEFINE_Q4_DOT(ROWS)                                                                   \
  INLINE void q4_dot_##ROWS(__global const uchar* w, __global const char* x, int stride, int8* sum) \
  {                                                                                           \
    __asm__(".irp j,0,1,2,3\n"                                                                \
            "vmovdqu 64*\\j(%[w]), %%ymm8\n"                                                  \
            "vmovdqu 64*\\j+32(%[w]), %%ymm9\n"                                               \
            "vpand %[nibbles], %%ymm8, %%ymm10\n"                                             \
            "vpand %[nibbles], %%ymm9, %%ymm11\n" EACH_##ROWS(Q4_LOW)                         \
            "vpsrlw $4, %%ymm8, %%ymm8\n"                                                     \
            "vpsrlw $4, %%ymm9, %%ymm9\n"                                                     \
            "vpand %[nibbles], %%ymm8, %%ymm10\n"                                             \
            "vpand %[nibbles], %%ymm9, %%ymm11\n" EACH_##ROWS(Q4_HIGH) ".endr\n"              \
            : SUMS_##ROWS                                                                     \
            : [w] "r"(w), ROW_INPUTS, [nibbles] "x"((int8)(0x0F0F0F0F))                       \
            : SCRATCH_REGISTERS);                                                             \
  }                                                                                           \
  /* From bytes decoded by q4_decode(). */                                                    \
  INLINE void q4_decoded_dot_##ROWS(const int16* w, __global const char* x, int stride, int8* sum) \
  {                                                                                           \
    __asm__(".irp j,0,1,2,3,4,5,6,7\n"                                                        \
            "vmovdqu 64*\\j(%[w]), %%ymm10\n"                                                 \
            "vmovdqu 64*\\j+32(%[w]), %%ymm11\n" EACH_##ROWS(Q4_LOW) ".endr\n"                \
            : SUMS_##ROWS                                                                     \
            : [w] "r"(w), ROW_INPUTS                                                          \
            : SCRATCH_REGISTERS);                                                             \
  }

INLINE int8 add_pairs(int8 words)
{
  int8 sums;
  __asm__("vpmaddwd %2, %1, %0" : "=x"(sums) : "x"(words), "x"((int8)(0x00010001)));
  return sums;
}

// acc += the products of `blocks` blocks (layouts of the rows: linear.cl).
#define DEFINE_BLOCKS(NAME, ROWS, WEIGHTS, BLOCK_WEIGHTS, SCALES, FIRST_SUM, SUM)                                       \
  static void NAME##_##ROWS(WEIGHTS, const LinearInput* in, int row0, int block0, int blocks, float16* acc)              \
  {                                                                                                                     \
    const size_t first = (size_t)block0 * in->rows + row0;                                                              \
    __global const char* x = in->q + first * 32;                                                                        \
    __global const float* scale = in->scale + first;                                                                    \
    __global const int* minus = in->sum + first * 2;                                                                    \
    float8 total[2 * ROWS];                                                                                             \
    _Pragma("unroll") for (int r = 0; r < ROWS; r++) { total[2 * r] = acc[r].lo; total[2 * r + 1] = acc[r].hi; }        \
    for (int b = 0; b < blocks; b++, x += 32 * in->rows, scale += in->rows, minus += 2 * in->rows) {                    \
      int8 sum[2 * ROWS];                                                                                               \
      _Pragma("unroll") for (int r = 0; r < ROWS; r++) sum[2 * r] = sum[2 * r + 1] = FIRST_SUM;                         \
      NAME##_dot_##ROWS(BLOCK_WEIGHTS, x, 32, sum);                                                                     \
      const float8 d0 = SCALES(0), d1 = SCALES(1);                                                                      \
      _Pragma("unroll") for (int r = 0; r < ROWS; r++) {                                                                \
        const float s = scale[r];                                                                                       \
        total[2 * r] = fma(convert_float8(SUM(sum[2 * r])), d0 * s, total[2 * r]);                                      \
        total[2 * r + 1] = fma(convert_float8(SUM(sum[2 * r + 1])), d1 * s, total[2 * r + 1]);                          \
      }                                                                                                                 \
    }                                                                                                                   \
    _Pragma("unroll") for (int r = 0; r < ROWS; r++) acc[r] = (float16)(total[2 * r], total[2 * r + 1]);                \
  }
#define IDENTITY(sum) sum
#define MINUS8 (int8)(minus[2 * r])
#define PANEL_SCALES_544(half_) vload_half8(half_, (__global const half*)(panel + 544 * b))
#define PANEL_SCALES_288(half_) vload_half8(half_, (__global const half*)(panel + 288 * b))
#define DECODED_SCALES(half_) vload8(half_, (const float*)&d[b])
#define DEFINE_INTEGERS(ROWS)                                                                                           \
  DEFINE_Q8_DOT(ROWS)                                                                                                   \
  DEFINE_Q4_DOT(ROWS)                                                                                                   \
  DEFINE_BLOCKS(q8, ROWS, __global const uchar* panel, panel + 544 * b + 32, PANEL_SCALES_544, (int8)(0), IDENTITY)     \
  DEFINE_BLOCKS(q4, ROWS, __global const uchar* panel, panel + 288 * b + 32, PANEL_SCALES_288, MINUS8, add_pairs)       \
  DEFINE_BLOCKS(q4_decoded, ROWS, const int16* w MORE const float16* d, w + 8 * b, DECODED_SCALES, MINUS8, add_pairs)
#define MORE ,
DEFINE_INTEGERS(1)
DEFINE_INTEGERS(2)
DEFINE_INTEGERS(3)
DEFINE_INTEGERS(4)

// Rows of the next tile when `left` remain: as few tiles of at most `most` rows as possible, their sizes within 1.
static int next_tile(int left, int most)
{
  const int tiles = (left + most - 1) / most;
  return (left + tiles - 1) / tiles;
}

static void q8_rows(__global const uchar* panel, const LinearInput* in, int row0, int rows, int depth, float16* acc)
{
  for (int r = 0; r < rows;) {
    const int tile = next_tile(rows - r, 4);
    switch (tile) {
      case 4: q8_4(panel, in, row0 + r, 0, depth / 32, acc + r); break;
      case 3: q8_3(panel, in, row0 + r, 0, depth / 32, acc + r); break;
      case 2: q8_2(panel, in, row0 + r, 0, depth / 32, acc + r); break;
      default: q8_1(panel, in, row0 + r, 0, depth / 32, acc + r); break;
    }
    r += tile;
  }
}

static void q4_rows(__global const uchar* panel, const LinearInput* in, int row0, int rows, int depth, float16* acc)
{
  switch (rows) {
    case 4: q4_4(panel, in, row0, 0, depth / 32, acc); return;
    case 3: q4_3(panel, in, row0, 0, depth / 32, acc); return;
    case 2: q4_2(panel, in, row0, 0, depth / 32, acc); return;
    case 1: q4_1(panel, in, row0, 0, depth / 32, acc); return;
  }
  int16 w[8 * STRETCH_BLOCKS];
  float16 d[STRETCH_BLOCKS];
  for (int block0 = 0; block0 < depth / 32; block0 += STRETCH_BLOCKS) {
    const int blocks = min(STRETCH_BLOCKS, depth / 32 - block0);
    for (int b = 0; b < blocks; b++) {
      __global const uchar* block = panel + 288 * (block0 + b);
      d[b] = vload_half16(0, (__global const half*)block);
      for (int i = 0; i < 4; i++) {
        const int16 both = vload16(i, (__global const int*)(block + 32));
        w[8 * b + i] = both & 0x0F0F0F0F;
        w[8 * b + 4 + i] = (both >> 4) & 0x0F0F0F0F;
      }
    }
    for (int r = 0; r < rows;) {
      const int tile = next_tile(rows - r, 4);
      switch (tile) {
        case 4: q4_decoded_4(w, d, in, row0 + r, block0, blocks, acc + r); break;
        case 3: q4_decoded_3(w, d, in, row0 + r, block0, blocks, acc + r); break;
        case 2: q4_decoded_2(w, d, in, row0 + r, block0, blocks, acc + r); break;
        default: q4_decoded_1(w, d, in, row0 + r, block0, blocks, acc + r); break;
      }
      r += tile;
    }
  }
}

// acc += the products of `count` depths.
#define FLOAT_ROW(at, row)                                                                    \
  "vbroadcastss " at ", %%ymm14\n"                                                            \
  "vfmadd231ps %%ymm12, %%ymm14, %[" row "0]\n"                                               \
  "vfmadd231ps %%ymm13, %%ymm14, %[" row "1]\n"
#define DEFINE_FLOATS(ROWS)                                                                   \
  static void floats_##ROWS(const float16* w, __global const char* x, int stride, int count, float16* acc) \
  {                                                                                           \
    float8 sum[2 * ROWS];                                                                     \
    __global const char* y = x + 3 * (long)stride;                                            \
    long n = count;                                                                           \
    _Pragma("unroll") for (int r = 0; r < ROWS; r++) { sum[2 * r] = acc[r].lo; sum[2 * r + 1] = acc[r].hi; } \
    __asm__("1:\n"                                                                            \
            "vmovups (%[w]), %%ymm12\n"                                                       \
            "vmovups 32(%[w]), %%ymm13\n" EACH_##ROWS(FLOAT_ROW)                              \
            "add $64, %[w]\n"                                                                 \
            "add $4, %[x]\n"                                                                  \
            "add $4, %[y]\n"                                                                  \
            "dec %[n]\n"                                                                      \
            "jnz 1b\n"                                                                        \
            : SUMS_##ROWS, [w] "+r"(w), [x] "+r"(x), [y] "+r"(y), [n] "+r"(n)                 \
            : [s] "r"((long)stride)                                                           \
            : "cc", "ymm12", "ymm13", "ymm14", "memory");                                     \
    _Pragma("unroll") for (int r = 0; r < ROWS; r++) acc[r] = (float16)(sum[2 * r], sum[2 * r + 1]); \
  }
DEFINE_FLOATS(1)
DEFINE_FLOATS(2)
DEFINE_FLOATS(3)
DEFINE_FLOATS(4)
DEFINE_FLOATS(5)
DEFINE_FLOATS(6)

INLINE float16 weights_at(int type, __global const uchar* panel, int k)
{
  if (type == TYPE_F16) return vload_half16(k, (__global const half*)panel);
  if (type == TYPE_F32) return vload16(k, (__global const float*)panel);
  return as_float16(convert_uint16(vload16(k, (__global const ushort*)panel)) << (uint16)(16));
}

static void float_rows(int type, __global const uchar* panel, const LinearInput* in, int row0, int rows, int depth, float16* acc)
{
  __global const float* x = in->x + (size_t)row0 * depth;
  if (rows == 1) {
    float16 sum = acc[0];
    for (int k = 0; k < depth; k++) sum = fma(weights_at(type, panel, k), (float16)(x[k]), sum);
    acc[0] = sum;
    return;
  }
  float16 w[STRETCH_DEPTH];
  for (int k0 = 0; k0 < depth; k0 += STRETCH_DEPTH, x += STRETCH_DEPTH) {
    const int count = min(STRETCH_DEPTH, depth - k0);
    for (int k = 0; k < count; k++) w[k] = weights_at(type, panel, k0 + k);
    for (int r = 0; r < rows;) {
      const int tile = next_tile(rows - r, 6);
      __global const char* row = (__global const char*)(x + (size_t)r * depth);
      switch (tile) {
        case 6: floats_6(w, row, 4 * depth, count, acc + r); break;
        case 5: floats_5(w, row, 4 * depth, count, acc + r); break;
        case 4: floats_4(w, row, 4 * depth, count, acc + r); break;
        case 3: floats_3(w, row, 4 * depth, count, acc + r); break;
        case 2: floats_2(w, row, 4 * depth, count, acc + r); break;
        default: floats_1(w, row, 4 * depth, count, acc + r); break;
      }
      r += tile;
    }
  }
}

static void linear_panel(int type, __global const uchar* panel, const LinearInput* in, int row0, int rows, int depth,
                         float16* acc)
{
  for (int r = 0; r < rows; r++) acc[r] = 0.0f;
  if (type == TYPE_Q8_0) {
    q8_rows(panel, in, row0, rows, depth, acc);
  } else if (type == TYPE_Q4_0) {
    q4_rows(panel, in, row0, rows, depth, acc);
  } else {
    float_rows(type, panel, in, row0, rows, depth, acc);
  }
}

static void linear_tile(int type, __global const uchar* a, __global const uchar* b, const LinearInput* in, int row0, int rows,
                        int depth, float16* acc_a, float16* acc_b)
{
  linear_panel(type, a, in, row0, rows, depth, acc_a);
  if (b) linear_panel(type, b, in, row0, rows, depth, acc_b);
}
