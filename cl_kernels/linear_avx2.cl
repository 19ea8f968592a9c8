// SPDX-License-Identifier: Apache-2.0
// linear_avx2.cl: linear_tile() for x86 processors with AVX2, FMA and F16C; contract and panel layouts: linear.cl. Gives the
// same bits as linear.cl does. linear_avx2_floats.cl, its other half, precedes it in a program.
//   The inner products are inline assembly: the compiler's own schedule spills the sums. A tile is 16 outputs (two registers)
//   times up to 4 rows (6 with AVX_VNNI); rows are split evenly, so that every tile has work for the whole pipeline.
//   Q8_0: |w| (unsigned) times x with the sign of w, pairs added in 16 bits: 2 * 128 * 127 < 2^15, so exact for every int8.
//   Q4_0, Q4_1: nibbles 0..15 times x; the 16 products of a lane and Q4_0's -8 * x stay below 2^15, so a block is summed in
//     16 bits.
//   IQ4_NL: decoded, then as Q8_0.
//   MXFP4: w + 12 times x; sums begin at -12 * x and may leave 16 bits on the way, but not in the end: 16 * 12 * 127 < 2^15.
//   Q5_1: numbers 0..31 times x; sums begin at -16 * x, so that they end below 2^15: 16 * 16 * 127; 16 * x is added to the total.
//   Q6_K: |w| (at most 32) times x with the sign of w. The 8 products of a lane and half a block stay below 2^15, so half a
//     block is summed in 16 bits.
//   AVX_VNNI (linear_avx_vnni.cl): vpdpbusd adds 4 products of unsigned weights (w + 128, or + 8) in 32 bits; the sums begin
//     at minus 128 (or 8) times the sum of the row's block, so that they end exact; Q6_K: |w| as without.
//   For more rows than a tile has, they meet a stretch of the panel that stays in the first-level cache; weights of
//   4 bits are decoded into it once, those of 5 and 6 bits for few rows, too.
//   Measured: docs/performance/linear-layers.md.
// Test: tests/kernel/linear_test.cpp.
#define STRETCH_BLOCKS 16  // blocks decoded at once: 8 KiB of bytes

// x: first row, s: bytes from a row to the next, y: fourth row.
#define ROW_INPUTS [x] "r"(x), [s] "r"((long)stride), [y] "r"(x + 3 * (long)stride)
#define SCRATCH_REGISTERS "ymm8", "ymm9", "ymm10", "ymm11", "ymm12", "ymm13", "ymm14", "memory"

// One block of 32 depths: 8 steps of 4 depths, j = 0..7; ymm10 and ymm11 hold the unsigned weights of outputs 0..7 and 8..15,
// ymm12 four numbers of a row.
#if AVX_VNNI
#define TILE_ROWS 6
#define ADD_4_PRODUCTS(row)                                                                   \
  "%{vex%} vpdpbusd %%ymm12, %%ymm10, %[" row "0]\n"                                          \
  "%{vex%} vpdpbusd %%ymm12, %%ymm11, %[" row "1]\n"
#define DOT_REGISTERS "ymm10", "ymm11", "ymm12", "memory"
#define Q8_CONSTANT 0x80808080
#define Q8_WEIGHTS                                                                            \
  "vpxor 64*\\j(%[w]), %[with], %%ymm10\n"                                                    \
  "vpxor 64*\\j+32(%[w]), %[with], %%ymm11\n"
#define Q8_ADD(row) ADD_4_PRODUCTS(row)
#define Q4_ADD(row) ADD_4_PRODUCTS(row)
#define ADD_SIGNED(row)                                                                       \
  "%{vex%} vpdpbusd %%ymm13, %%ymm10, %[" row "0]\n"                                          \
  "%{vex%} vpdpbusd %%ymm14, %%ymm11, %[" row "1]\n"
#define Q5_FIRST_SUM (int8)(0)
#define Q5_SUM(sum) sum
#define Q8_FIRST_SUM (int8)(minus[2 * r + 1] << 4)
#define Q4_FIRST_SUM (int8)(minus[2 * r + 1])
#define MX_FIRST_SUM (int8)(minus[2 * r + 1] / 2 * 3)
#define Q4_SUM(sum) sum
#else
#define TILE_ROWS 4
#define DOT_REGISTERS SCRATCH_REGISTERS
#define Q8_CONSTANT 0x00010001
#define Q8_WEIGHTS                                                                            \
  "vmovdqu 64*\\j(%[w]), %%ymm8\n"                                                            \
  "vmovdqu 64*\\j+32(%[w]), %%ymm9\n"                                                         \
  "vpabsb %%ymm8, %%ymm10\n"                                                                  \
  "vpabsb %%ymm9, %%ymm11\n"
#define Q8_ADD(row)                                                                           \
  "vpsignb %%ymm8, %%ymm12, %%ymm13\n"                                                        \
  "vpsignb %%ymm9, %%ymm12, %%ymm14\n"                                                        \
  "vpmaddubsw %%ymm13, %%ymm10, %%ymm13\n"                                                    \
  "vpmaddubsw %%ymm14, %%ymm11, %%ymm14\n"                                                    \
  "vpmaddwd %[with], %%ymm13, %%ymm13\n"                                                      \
  "vpmaddwd %[with], %%ymm14, %%ymm14\n"                                                      \
  "vpaddd %%ymm13, %[" row "0], %[" row "0]\n"                                                \
  "vpaddd %%ymm14, %[" row "1], %[" row "1]\n"
#define Q4_ADD(row)                                                                           \
  "vpmaddubsw %%ymm12, %%ymm10, %%ymm13\n"                                                    \
  "vpmaddubsw %%ymm12, %%ymm11, %%ymm14\n"                                                    \
  "vpaddw %%ymm13, %[" row "0], %[" row "0]\n"                                                \
  "vpaddw %%ymm14, %[" row "1], %[" row "1]\n"
#define ADD_SIGNED(row)                                                                       \
  "vpmaddubsw %%ymm13, %%ymm10, %%ymm13\n"                                                    \
  "vpmaddubsw %%ymm14, %%ymm11, %%ymm14\n"                                                    \
  "vpaddw %%ymm13, %[" row "0], %[" row "0]\n"                                                \
  "vpaddw %%ymm14, %[" row "1], %[" row "1]\n"
#define Q5_FIRST_SUM (int8)(as_int(as_short2(minus[2 * r]) * (short)2))
#define Q5_SUM(sum) add_pairs(sum) - 2 * minus[2 * r + 1]
#define Q8_FIRST_SUM (int8)(0)
#define Q4_FIRST_SUM (int8)(minus[2 * r])
#define MX_FIRST_SUM (int8)(as_int(as_short2(minus[2 * r]) / (short)2 * (short)3))
#define Q4_SUM(sum) add_pairs(sum)
#endif

#define Q8_ROW(at, row) "vpbroadcastd 4*\\j" at ", %%ymm12\n" Q8_ADD(row)
#define DEFINE_Q8_DOT(ROWS)                                                                   \
  INLINE void q8_dot_##ROWS(ulong w, __global const char* x, int stride, int8* sum)           \
  {                                                                                           \
    __asm__(".irp j,0,1,2,3,4,5,6,7\n" Q8_WEIGHTS EACH_##ROWS(Q8_ROW) ".endr\n"               \
            : SUMS_##ROWS                                                                     \
            : [w] "r"(w), ROW_INPUTS, [with] "x"((int8)(Q8_CONSTANT))                         \
            : DOT_REGISTERS);                                                                 \
  }

#define Q4_LOW(at, row) "vpbroadcastd 4*\\j" at ", %%ymm12\n" Q4_ADD(row)
#define Q4_HIGH(at, row) "vpbroadcastd 16+4*\\j" at ", %%ymm12\n" Q4_ADD(row)
// From the panel. MXFP4's nibbles (LOOK_UP) become the numbers of a table, in unsigned bytes.
#define MX_UNSIGNED (int4)(0x0F0E0D0C, 0x18141210, 0x090A0B0C, 0x00040608)  // each number + 12
#define MX_LOOK_UP                                                                            \
  "vmovdqu %[table], %%ymm13\n"                                                               \
  "vpshufb %%ymm10, %%ymm13, %%ymm10\n"                                                       \
  "vpshufb %%ymm11, %%ymm13, %%ymm11\n"
#define MX_TABLE , [table] "m"(table)
#define DEFINE_Q4_DOT(NAME, ROWS, LOOK_UP, TABLE)                                             \
  INLINE void NAME##_##ROWS(__global const uchar* w, __global const char* x, int stride, int8* sum) \
  {                                                                                           \
    const int8 table = (int8)(MX_UNSIGNED, MX_UNSIGNED);                                      \
    __asm__(".irp j,0,1,2,3\n"                                                                \
            "vmovdqu 64*\\j(%[w]), %%ymm8\n"                                                  \
            "vmovdqu 64*\\j+32(%[w]), %%ymm9\n"                                               \
            "vpand %[nibbles], %%ymm8, %%ymm10\n"                                             \
            "vpand %[nibbles], %%ymm9, %%ymm11\n" LOOK_UP EACH_##ROWS(Q4_LOW)                 \
            "vpsrlw $4, %%ymm8, %%ymm8\n"                                                     \
            "vpsrlw $4, %%ymm9, %%ymm9\n"                                                     \
            "vpand %[nibbles], %%ymm8, %%ymm10\n"                                             \
            "vpand %[nibbles], %%ymm9, %%ymm11\n" LOOK_UP EACH_##ROWS(Q4_HIGH) ".endr\n"      \
            : SUMS_##ROWS                                                                     \
            : [w] "r"(w), ROW_INPUTS, [nibbles] "x"((int8)(0x0F0F0F0F)) TABLE                 \
            : SCRATCH_REGISTERS);                                                             \
  }
// From decoded bytes.
#define DEFINE_DECODED_DOT(ROWS)                                                              \
  INLINE void decoded_dot_##ROWS(const int16* w, __global const char* x, int stride, int8* sum) \
  {                                                                                           \
    __asm__(".irp j,0,1,2,3,4,5,6,7\n"                                                        \
            "vmovdqu 64*\\j(%[w]), %%ymm10\n"                                                 \
            "vmovdqu 64*\\j+32(%[w]), %%ymm11\n" EACH_##ROWS(Q4_LOW) ".endr\n"                \
            : SUMS_##ROWS                                                                     \
            : [w] "r"(w), ROW_INPUTS                                                          \
            : DOT_REGISTERS);                                                                 \
  }

INLINE int8 add_pairs(int8 words)
{
  int8 sums;
  __asm__("vpmaddwd %2, %1, %0" : "=x"(sums) : "x"(words), "x"((int8)(0x00010001)));
  return sums;
}

// Half a block of Q6_K's numbers.
#define HALF_ROW(at, row)                                                                     \
  "vpbroadcastd 4*\\j" at ", %%ymm12\n"                                                       \
  "vpsignb %%ymm8, %%ymm12, %%ymm13\n"                                                        \
  "vpsignb %%ymm9, %%ymm12, %%ymm14\n" ADD_SIGNED(row)
#define DEFINE_HALF_DOT(ROWS)                                                                 \
  INLINE void half_dot_##ROWS(const int16* w, __global const char* x, int stride, int8* sum)  \
  {                                                                                           \
    _Pragma("unroll") for (int i = 0; i < 2 * ROWS; i++) sum[i] = 0;                          \
    __asm__(".irp j,0,1,2,3\n"                                                                \
            "vmovdqu 64*\\j(%[w]), %%ymm8\n"                                                  \
            "vmovdqu 64*\\j+32(%[w]), %%ymm9\n"                                               \
            "vpabsb %%ymm8, %%ymm10\n"                                                        \
            "vpabsb %%ymm9, %%ymm11\n" EACH_##ROWS(HALF_ROW) ".endr\n"                       \
            : SUMS_##ROWS                                                                     \
            : [w] "r"(w), ROW_INPUTS                                                          \
            : SCRATCH_REGISTERS);                                                             \
    _Pragma("unroll") for (int i = 0; i < 2 * ROWS; i++) sum[i] = Q4_SUM(sum[i]);             \
  }

#define BLOCKS_AHEAD 4  // weights are asked for before they are read

// acc += the products of `blocks` blocks (layouts of the rows: linear.cl). WEIGHTS: what the function reads, BLOCK_WEIGHTS: of
// block b. HALVES(i): 8 of the block's 16 scales, and (i = 2, 3) minima of Q4_1. ASK: for what is read after these blocks.
#define DEFINE_BLOCKS(NAME, DOT, ROWS, WEIGHTS, BLOCK_WEIGHTS, HALVES, FIRST_SUM, SUM, MINIMUM, ASK)                    \
  static void NAME##_##ROWS(WEIGHTS, const LinearInput* in, int row0, int block0, int blocks, int ask, float16* acc)     \
  {                                                                                                                     \
    const size_t first = (size_t)block0 * in->rows + row0;                                                              \
    __global const char* x = in->q + first * 32;                                                                        \
    __global const float* scale = in->scale + first;                                                                    \
    __global const int* minus = in->sum + first * 2;                                                                    \
    float8 total[2 * ROWS];                                                                                             \
    _Pragma("unroll") for (int r = 0; r < ROWS; r++) { total[2 * r] = acc[r].lo; total[2 * r + 1] = acc[r].hi; }        \
    for (int b = 0; b < blocks; b++, x += 32 * in->rows, scale += in->rows, minus += 2 * in->rows) {                    \
      int8 sum[2 * ROWS];                                                                                               \
      ASK                                                                                                               \
      _Pragma("unroll") for (int r = 0; r < ROWS; r++) sum[2 * r] = sum[2 * r + 1] = FIRST_SUM;                         \
      DOT##_##ROWS(BLOCK_WEIGHTS, x, 32, sum);                                                                          \
      const float8 d0 = HALVES(0), d1 = HALVES(1);                                                                      \
      MINIMA_##MINIMUM(HALVES)                                                                                          \
      _Pragma("unroll") for (int r = 0; r < ROWS; r++) {                                                                \
        const float s = scale[r];                                                                                       \
        total[2 * r] = fma(convert_float8(SUM(sum[2 * r])), d0 * s, total[2 * r]);                                      \
        total[2 * r + 1] = fma(convert_float8(SUM(sum[2 * r + 1])), d1 * s, total[2 * r + 1]);                          \
        ADD_MINIMUM_##MINIMUM                                                                                           \
      }                                                                                                                 \
    }                                                                                                                   \
    _Pragma("unroll") for (int r = 0; r < ROWS; r++) acc[r] = (float16)(total[2 * r], total[2 * r + 1]);                \
  }
#define Q8_HALVES(i) vload_half8(i, (__global const half*)(panel + 544 * b))
#define Q4_HALVES(i) vload_half8(i, (__global const half*)(panel + 288 * b))
#define MX_HALVES(i) as_float8(convert_int8(vload8(i, panel + 272 * b)) << 23)
#define Q41_HALVES(i) vload_half8(i, (__global const half*)(panel + 320 * b))
#define Q4_DECODED_HALVES(i) vload8(i, (const float*)&halves[b])
#define Q41_DECODED_HALVES(i) vload8(i, (const float*)&halves[2 * b])
#define Q8_SUM(sum) sum
#define Q41_FIRST_SUM (int8)(0)
// Without minima the totals stay in memory, where fma takes them from (the compiler, left alone, stores and loads each twice).
#define MINIMA_NONE(HALVES)
#define ADD_MINIMUM_NONE __asm__("" : "+m"(total[2 * r]), "+m"(total[2 * r + 1]));
#define MINIMA_ADDED(HALVES) const float8 m0 = HALVES(2) * -0.125f, m1 = HALVES(3) * -0.125f;
#define ADD_MINIMUM_ADDED                                                                     \
  const float8 numbers = convert_float8((int8)(minus[2 * r + 1])) * s;                        \
  total[2 * r] = fma(m0, numbers, total[2 * r]);                                              \
  total[2 * r + 1] = fma(m1, numbers, total[2 * r + 1]);
#define PANEL __global const uchar* panel
#define DECODED const int16 *w, const float16 *halves
// The same for Q6_K, whose half blocks have scales of their own.
#define DEFINE_Q6_BLOCKS(ROWS)                                                                                          \
  static void q6_decoded_##ROWS(DECODED, const LinearInput* in, int row0, int block0, int blocks, int ask, float16* acc) \
  {                                                                                                                     \
    for (int part = 0; part < 2 * blocks; part++) {                                                                     \
      const size_t first = (size_t)(block0 + part / 2) * in->rows + row0;                                               \
      __global const float* scale = in->scale + first;                                                                  \
      int8 sum[2 * ROWS];                                                                                               \
      half_dot_##ROWS(w + 4 * part, in->q + first * 32 + part % 2 * 16, 32, sum);                                       \
      _Pragma("unroll") for (int r = 0; r < ROWS; r++) {                                                                \
        acc[r] = fma(convert_float16((int16)(sum[2 * r], sum[2 * r + 1])), halves[part] * scale[r], acc[r]);            \
      }                                                                                                                 \
    }                                                                                                                   \
  }
#define ASK(BYTES) if (ask) ask_for(panel + BYTES * (b + BLOCKS_AHEAD), BYTES);
#define DEFINE_TILE(ROWS)                                                                                               \
  DEFINE_Q8_DOT(ROWS)                                                                                                   \
  DEFINE_DECODED_DOT(ROWS)                                                                                              \
  DEFINE_BLOCKS(q8, q8_dot, ROWS, PANEL, (ulong)(panel + 544 * b + 32), Q8_HALVES, Q8_FIRST_SUM, Q8_SUM, NONE, ASK(544))\
  DEFINE_BLOCKS(nl_decoded, q8_dot, ROWS, DECODED, (ulong)(w + 8 * b), Q4_DECODED_HALVES, Q8_FIRST_SUM, Q8_SUM, NONE, ) \
  DEFINE_BLOCKS(q4_decoded, decoded_dot, ROWS, DECODED, w + 8 * b, Q4_DECODED_HALVES, Q4_FIRST_SUM, Q4_SUM, NONE, )     \
  DEFINE_BLOCKS(mx_decoded, decoded_dot, ROWS, DECODED, w + 8 * b, Q4_DECODED_HALVES, MX_FIRST_SUM, Q4_SUM, NONE, )     \
  DEFINE_BLOCKS(q41_decoded, decoded_dot, ROWS, DECODED, w + 8 * b, Q41_DECODED_HALVES, Q41_FIRST_SUM, Q4_SUM, ADDED, ) \
  DEFINE_BLOCKS(q51_decoded, decoded_dot, ROWS, DECODED, w + 8 * b, Q41_DECODED_HALVES, Q5_FIRST_SUM, Q5_SUM, ADDED, )
#define DEFINE_FEW_ROWS(ROWS)                                                                                           \
  DEFINE_HALF_DOT(ROWS)                                                                                                 \
  DEFINE_TILE(ROWS)                                                                                                     \
  DEFINE_Q6_BLOCKS(ROWS)                                                                                                \
  DEFINE_Q4_DOT(q4_dot, ROWS, , )                                                                                       \
  DEFINE_Q4_DOT(mx_dot, ROWS, MX_LOOK_UP, MX_TABLE)                                                                     \
  DEFINE_BLOCKS(mx, mx_dot, ROWS, PANEL, panel + 272 * b + 16, MX_HALVES, MX_FIRST_SUM, Q4_SUM, NONE, ASK(272))         \
  DEFINE_BLOCKS(q4, q4_dot, ROWS, PANEL, panel + 288 * b + 32, Q4_HALVES, Q4_FIRST_SUM, Q4_SUM, NONE, ASK(288))         \
  DEFINE_BLOCKS(q41, q4_dot, ROWS, PANEL, panel + 320 * b + 64, Q41_HALVES, Q41_FIRST_SUM, Q4_SUM, ADDED, ASK(320))
DEFINE_FEW_ROWS(1)
DEFINE_FEW_ROWS(2)
DEFINE_FEW_ROWS(3)
DEFINE_FEW_ROWS(4)
#if AVX_VNNI
DEFINE_TILE(5)
DEFINE_TILE(6)
#endif

// `blocks` blocks from block0 on, of which the weights, WEIGHTS, are NAME's first arguments: `tile` rows from r on.
#define TILE_CASE(NAME, ROWS, ...) \
  case ROWS: NAME##_##ROWS(__VA_ARGS__, in, row0 + r, block0, blocks, r == 0, acc + r); break;
#define FEW_CASES(NAME, ...)                                                                  \
  TILE_CASE(NAME, 1, __VA_ARGS__)                                                             \
  TILE_CASE(NAME, 2, __VA_ARGS__)                                                             \
  TILE_CASE(NAME, 3, __VA_ARGS__)                                                             \
  TILE_CASE(NAME, 4, __VA_ARGS__)
#if AVX_VNNI
#define CASES(NAME, ...) FEW_CASES(NAME, __VA_ARGS__) TILE_CASE(NAME, 5, __VA_ARGS__) TILE_CASE(NAME, 6, __VA_ARGS__)
#else
#define CASES(NAME, ...) FEW_CASES(NAME, __VA_ARGS__)
#endif
#define FOR_TILES_OF(ROWS, CASES, NAME, ...)                                                  \
  for (int r = 0, tile; r < rows; r += tile) {                                                \
    tile = next_part(rows - r, ROWS);                                                         \
    switch (tile) { CASES(NAME, __VA_ARGS__) }                                                \
  }
#define FOR_TILES(NAME, ...) FOR_TILES_OF(TILE_ROWS, CASES, NAME, __VA_ARGS__)

static void q8_rows(__global const uchar* panel, const LinearInput* in, int row0, int rows, int depth, float16* acc)
{
  for (int block0 = 0, blocks; block0 < depth / 32; block0 += blocks) {
    blocks = rows <= TILE_ROWS ? depth / 32 : next_part(depth / 32 - block0, STRETCH_BLOCKS);
    FOR_TILES(q8, panel + 544 * block0)
  }
}

// Q4_0 and Q4_1. A block: `kinds` times 16 halves (scales, minima of Q4_1), then the numbers.
static void q4_rows(int type, __global const uchar* panel, const LinearInput* in, int row0, int rows, int depth, float16* acc)
{
  const int kinds = IS_TYPE(type, Q4_1) ? 2 : 1;
  if (rows <= 4) {
    const int r = 0, block0 = 0, blocks = depth / 32;
    if (IS_TYPE(type, Q4_1)) {
      switch (rows) { FEW_CASES(q41, panel) }
    } else if (HAS_TYPE(Q4_0)) {
      switch (rows) { FEW_CASES(q4, panel) }
    }
    return;
  }
  int16 w[8 * STRETCH_BLOCKS];
  float16 halves[2 * STRETCH_BLOCKS];
  const int bytes = 256 + 32 * kinds;
  for (int block0 = 0, blocks; block0 < depth / 32; block0 += blocks) {
    blocks = next_part(depth / 32 - block0, STRETCH_BLOCKS);
    for (int b = 0; b < blocks; b++) {
      __global const uchar* block = panel + bytes * (block0 + b);
      ask_for(block + BLOCKS_AHEAD * bytes, 320);
      for (int i = 0; i < kinds; i++) halves[kinds * b + i] = vload_half16(i, (__global const half*)block);
      for (int i = 0; i < 4; i++) {
        const int16 both = vload16(i, (__global const int*)(block + 32 * kinds));
        w[8 * b + i] = both & 0x0F0F0F0F;
        w[8 * b + 4 + i] = (both >> 4) & 0x0F0F0F0F;
      }
    }
    if (IS_TYPE(type, Q4_1)) {
      FOR_TILES(q41_decoded, w, halves)
    } else if (HAS_TYPE(Q4_0)) {
      FOR_TILES(q4_decoded, w, halves)
    }
  }
}

// Numbers of a table that nibbles stand for.
INLINE int16 shuffled(int16 nibbles, int4 table)
{
  int8 low, high;
  __asm__("vpshufb %1, %2, %0" : "=x"(low) : "x"(nibbles.lo), "x"((int8)(table, table)));
  __asm__("vpshufb %1, %2, %0" : "=x"(high) : "x"(nibbles.hi), "x"((int8)(table, table)));
  return (int16)(low, high);
}

// IQ4_NL and MXFP4.
static void table_rows(int type, __global const uchar* panel, const LinearInput* in, int row0, int rows, int depth, float16* acc)
{
  if (IS_TYPE(type, MXFP4) && rows <= 4) {
    const int r = 0, block0 = 0, blocks = depth / 32;
    switch (rows) { FEW_CASES(mx, panel) }
    return;
  }
  int16 w[8 * STRETCH_BLOCKS];
  float16 halves[STRETCH_BLOCKS];
  const int head = head_bytes(type), bytes = 256 + head;
  const int4 table = type == TYPE_MXFP4 ? MX_UNSIGNED : NL_NUMBERS;
  for (int block0 = 0, blocks; block0 < depth / 32; block0 += blocks) {
    blocks = next_part(depth / 32 - block0, STRETCH_BLOCKS);
    for (int b = 0; b < blocks; b++) {
      __global const uchar* block = panel + bytes * (block0 + b);
      ask_for(block + BLOCKS_AHEAD * bytes, 288);
      halves[b] = scales_16(type, block);
      for (int i = 0; i < 4; i++) {
        const int16 both = vload16(i, (__global const int*)(block + head));
        w[8 * b + i] = shuffled(both & 0x0F0F0F0F, table);
        w[8 * b + 4 + i] = shuffled((both >> 4) & 0x0F0F0F0F, table);
      }
    }
    if (IS_TYPE(type, MXFP4)) {
      FOR_TILES(mx_decoded, w, halves)
    } else if (HAS_TYPE(IQ4_NL)) {
      FOR_TILES(nl_decoded, w, halves)
    }
  }
}

// Q5_1 and Q6_K.
static void upper_rows(int type, __global const uchar* panel, const LinearInput* in, int row0, int rows, int depth, float16* acc)
{
  int16 w[8 * STRETCH_BLOCKS];
  float16 halves[2 * STRETCH_BLOCKS];
  const int bytes = panel_bytes(type, 32);
  for (int block0 = 0, blocks; block0 < depth / 32; block0 += blocks) {
    blocks = next_part(depth / 32 - block0, STRETCH_BLOCKS);
    for (int b = 0; b < blocks; b++) {
      __global const uchar* block = panel + bytes * (block0 + b);
      ask_for(block + BLOCKS_AHEAD * bytes, 448);
      for (int i = 0; i < 2; i++) halves[2 * b + i] = vload_half16(i, (__global const half*)block);
      __global const int* words = (__global const int*)(block + 64);
      _Pragma("unroll") for (int i = 0; i < 8; i++) w[8 * b + i] = four_numbers_16(type, words, i);
    }
    if (IS_TYPE(type, Q6_K)) {
      FOR_TILES_OF(4, FEW_CASES, q6_decoded, w, halves)
    } else if (HAS_TYPE(Q5_1)) {
      FOR_TILES(q51_decoded, w, halves)
    }
  }
}

static void linear_panel(int type, __global const uchar* panel, const LinearInput* in, int row0, int rows, int depth,
                         float16* acc)
{
  for (int r = 0; r < rows; r++) acc[r] = 0.0f;
  if (IS_TYPE(type, Q8_0)) {
    q8_rows(panel, in, row0, rows, depth, acc);
  } else if (IS_TYPE(type, Q4_0)) {
    q4_rows(TYPE_Q4_0, panel, in, row0, rows, depth, acc);
  } else if (IS_TYPE(type, Q4_1)) {
    q4_rows(TYPE_Q4_1, panel, in, row0, rows, depth, acc);
  } else if (IS_TYPE(type, IQ4_NL) || IS_TYPE(type, MXFP4)) {
    table_rows(type, panel, in, row0, rows, depth, acc);
  } else if (IS_TYPE(type, Q5_1) || IS_TYPE(type, Q6_K)) {
    upper_rows(type, panel, in, row0, rows, depth, acc);
  } else if (HAS_FLOATS) {
    float_rows(type, panel, in, row0, rows, depth, acc);
  }
}

static void linear_begin(void) {}
static void linear_end(void) {}

static void linear_tile(int type, __global const uchar* a, __global const uchar* b, const LinearInput* in, int row0, int rows,
                        int depth, float16* acc_a, float16* acc_b)
{
  if (HAS_FLOATS && rows == 1 && !takes_bytes(type)) {
    float16 spare;
    float_row(type, a, b ? b : a, in, row0, depth, acc_a, b ? acc_b : &spare);
    return;
  }
  linear_panel(type, a, in, row0, rows, depth, acc_a);
  if (b) linear_panel(type, b, in, row0, rows, depth, acc_b);
}
