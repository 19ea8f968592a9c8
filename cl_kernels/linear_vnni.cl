// SPDX-License-Identifier: Apache-2.0
// linear_vnni.cl: linear_tile() for x86 processors with AVX-512 and its VNNI; contract and panel layouts: linear.cl. Gives
// the same bits as linear.cl does. linear_vnni_floats.cl, its other half, precedes it in a program.
//   The inner products are inline assembly, since drivers may compile for a processor model without VNNI.
//   Q8_0, Q4_0, IQ4_NL, MXFP4, Q4_1, Q5_1 (here Q8, Q4, NL, MX, Q41, Q51): a block's 32 depths of 16 outputs fill 8 registers
//     as unsigned bytes (Q4_0: w + 8, Q4_1 and Q5_1: w, the others: w + 128) while it meets all rows of the tile, 4 at a
//     time; vpdpbusd adds 4 depths of a row, broadcast from memory. Two panels share the broadcasts: else loading is the
//     bottleneck. The sums begin at minus 128 (or 8) times the sum of the row's block, so that they end exact; the float sums
//     of the rows wait in the first-level cache.
//   Q6_K (here Q6): half a block at once, w as signed bytes times x + 128, since the rows have no sums of half blocks; the
//     sums begin at minus 128 times the sum of each output's weights.
//   Measured: docs/PERFORMANCE.md. Test: tests/kernel/linear_test.cpp.
#define AVX512_VNNI 1

// M(row, its register for the integer sum, its register for the scale)
#define EACH_1(M) M("0", "0", "8")
#define EACH_2(M) EACH_1(M) M("1", "1", "9")
#define EACH_4(M) EACH_2(M) M("2", "2", "10") M("3", "3", "11")

#define ROW_BEGIN_Q8(row, sum, scale) "vpslld $4, 8*" row "+4(%[minus])" BROADCAST ", %%zmm" sum "\n"
#define ROW_BEGIN_Q4(row, sum, scale) "vpbroadcastd 8*" row "+4(%[minus]), %%zmm" sum "\n"
#define ROW_BEGIN_Q41(row, sum, scale) "vpxord %%zmm" sum ", %%zmm" sum ", %%zmm" sum "\n"
#define ROW_DOT(j, row, sum) "vpdpbusd 4*" j "+32*" row "(%[x])" BROADCAST ", %[w" j "], %%zmm" sum "\n"
#define ROW_DOT_0(row, sum, scale) ROW_DOT("0", row, sum)
#define ROW_DOT_1(row, sum, scale) ROW_DOT("1", row, sum)
#define ROW_DOT_2(row, sum, scale) ROW_DOT("2", row, sum)
#define ROW_DOT_3(row, sum, scale) ROW_DOT("3", row, sum)
#define ROW_DOT_4(row, sum, scale) ROW_DOT("4", row, sum)
#define ROW_DOT_5(row, sum, scale) ROW_DOT("5", row, sum)
#define ROW_DOT_6(row, sum, scale) ROW_DOT("6", row, sum)
#define ROW_DOT_7(row, sum, scale) ROW_DOT("7", row, sum)
#define ROW_CONVERT(row, sum, scale)                                        \
  "vcvtdq2ps %%zmm" sum ", %%zmm" sum "\n"                                  \
  "vmulps 4*" row "(%[scale])" BROADCAST ", %[d], %%zmm" scale "\n"
#define ROW_ADD(row, sum, scale) "vfmadd213ps 64*" row "(%[acc]), %%zmm" scale ", %%zmm" sum "\n"
#define ROW_STORE(row, sum) "vmovups %%zmm" sum ", 64*" row "(%[acc])\n"
// The sum of the row's block times its scale.
#define ROW_NUMBERS(row, to)                                                \
  "vcvtdq2ps 8*" row "+4(%[minus])" BROADCAST ", %%zmm" to "\n"             \
  "vmulps 4*" row "(%[scale])" BROADCAST ", %%zmm" to ", %%zmm" to "\n"
#define ROW_END_Q8(row, sum, scale) ROW_ADD(row, sum, scale) ROW_STORE(row, sum)
#define ROW_END_Q4(row, sum, scale) ROW_ADD(row, sum, scale) ROW_STORE(row, sum)
#define ROW_END_Q41(row, sum, scale)                                        \
  ROW_ADD(row, sum, scale) ROW_NUMBERS(row, scale)                          \
  "vfmadd231ps %%zmm" scale ", %[m], %%zmm" sum "\n" ROW_STORE(row, sum)

typedef struct {
  int16 w[8];  // bytes, unsigned but for Q6: [k/4] of [output][4]
  float16 d;
  float16 m;       // of Q41: -1/8 of the minima; of Q6: scales of the second half
  int16 minus[2];  // of Q6: -128 times the sum of each half's weights
} Block;
#define MINIMUM_INPUT_Q8(n, block)
#define MINIMUM_INPUT_Q4(n, block)
#define MINIMUM_INPUT_Q41(n, block) , [n] "v"(block->m)

// acc[r] += the products of one block with rows r = 0..ROWS-1 (layout: LinearInput).
#define DEFINE_BLOCK_ROWS(TYPE, ROWS)                                                                                     \
  INLINE void block_rows_##TYPE##_##ROWS(const Block* b, __global const char* x, __global const float* scale,             \
                                         __global const int* minus, float16* acc)                                         \
  {                                                                                                                       \
    __asm__ volatile(EACH_##ROWS(ROW_BEGIN_##TYPE) EACH_##ROWS(ROW_DOT_0) EACH_##ROWS(ROW_DOT_1) EACH_##ROWS(ROW_DOT_2)   \
                         EACH_##ROWS(ROW_DOT_3) EACH_##ROWS(ROW_DOT_4) EACH_##ROWS(ROW_DOT_5) EACH_##ROWS(ROW_DOT_6)      \
                             EACH_##ROWS(ROW_DOT_7) EACH_##ROWS(ROW_CONVERT) EACH_##ROWS(ROW_END_##TYPE)                  \
                     :                                                                                                    \
                     : [w0] "v"(b->w[0]), [w1] "v"(b->w[1]), [w2] "v"(b->w[2]), [w3] "v"(b->w[3]), [w4] "v"(b->w[4]),     \
                       [w5] "v"(b->w[5]), [w6] "v"(b->w[6]), [w7] "v"(b->w[7]), [d] "v"(b->d), [x] "r"(x),                \
                       [scale] "r"(scale), [minus] "r"(minus), [acc] "r"(acc) MINIMUM_INPUT_##TYPE(m, b)                  \
                     : "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10", "zmm11",  \
                       "zmm12", "zmm13", "zmm14", "zmm15", "memory");                                                     \
  }
// Four rows and two panels: acc_a[r] and acc_b[r].
#define PAIR_4(M) M("0", "0", "4", "8") M("1", "1", "5", "9") M("2", "2", "6", "10") M("3", "3", "7", "11")
#define PAIR_BEGIN_Q8(row, a, b, x) ROW_BEGIN_Q8(row, a, x) "vmovdqa64 %%zmm" a ", %%zmm" b "\n"
#define PAIR_BEGIN_Q4(row, a, b, x) ROW_BEGIN_Q4(row, a, x) "vmovdqa64 %%zmm" a ", %%zmm" b "\n"
#define PAIR_BEGIN_Q41(row, a, b, x) ROW_BEGIN_Q41(row, a, x) ROW_BEGIN_Q41(row, b, x)
#if BROADCAST_OPERANDS
#define PAIR_DOT(j, row, a, b, x)                                           \
  "vpdpbusd 4*" j "+32*" row "(%[x])" BROADCAST ", %[a" j "], %%zmm" a "\n" \
  "vpdpbusd 4*" j "+32*" row "(%[x])" BROADCAST ", %[b" j "], %%zmm" b "\n"
#else
#define PAIR_DOT(j, row, a, b, x)                                           \
  "vpbroadcastd 4*" j "+32*" row "(%[x]), %%zmm" x "\n"                     \
  "vpdpbusd %%zmm" x ", %[a" j "], %%zmm" a "\n"                            \
  "vpdpbusd %%zmm" x ", %[b" j "], %%zmm" b "\n"
#endif
#define PAIR_DOT_0(row, a, b, x) PAIR_DOT("0", row, a, b, x)
#define PAIR_DOT_1(row, a, b, x) PAIR_DOT("1", row, a, b, x)
#define PAIR_DOT_2(row, a, b, x) PAIR_DOT("2", row, a, b, x)
#define PAIR_DOT_3(row, a, b, x) PAIR_DOT("3", row, a, b, x)
#define PAIR_DOT_4(row, a, b, x) PAIR_DOT("4", row, a, b, x)
#define PAIR_DOT_5(row, a, b, x) PAIR_DOT("5", row, a, b, x)
#define PAIR_DOT_6(row, a, b, x) PAIR_DOT("6", row, a, b, x)
#define PAIR_DOT_7(row, a, b, x) PAIR_DOT("7", row, a, b, x)
#define PAIR_ADD(row, a, b, x)                                              \
  "vcvtdq2ps %%zmm" a ", %%zmm" a "\n"                                      \
  "vcvtdq2ps %%zmm" b ", %%zmm" b "\n"                                      \
  "vmulps 4*" row "(%[scale])" BROADCAST ", %[da], %%zmm" x "\n"            \
  "vfmadd213ps 64*" row "(%[acc_a]), %%zmm" x ", %%zmm" a "\n"              \
  "vmulps 4*" row "(%[scale])" BROADCAST ", %[db], %%zmm" x "\n"            \
  "vfmadd213ps 64*" row "(%[acc_b]), %%zmm" x ", %%zmm" b "\n"
#define PAIR_STORE_ROW(row, a, b)                                           \
  "vmovups %%zmm" a ", 64*" row "(%[acc_a])\n"                              \
  "vmovups %%zmm" b ", 64*" row "(%[acc_b])\n"
#define PAIR_END_Q8(row, a, b, x) PAIR_ADD(row, a, b, x) PAIR_STORE_ROW(row, a, b)
#define PAIR_END_Q4(row, a, b, x) PAIR_ADD(row, a, b, x) PAIR_STORE_ROW(row, a, b)
#define PAIR_END_Q41(row, a, b, x)                                          \
  PAIR_ADD(row, a, b, x) ROW_NUMBERS(row, x)                                \
  "vfmadd231ps %%zmm" x ", %[ma], %%zmm" a "\n"                             \
  "vfmadd231ps %%zmm" x ", %[mb], %%zmm" b "\n" PAIR_STORE_ROW(row, a, b)
#define WEIGHT_INPUTS(n, block)                                                                                           \
  [n##0] "v"(block->w[0]), [n##1] "v"(block->w[1]), [n##2] "v"(block->w[2]), [n##3] "v"(block->w[3]),                     \
      [n##4] "v"(block->w[4]), [n##5] "v"(block->w[5]), [n##6] "v"(block->w[6]), [n##7] "v"(block->w[7])
#define DEFINE_BLOCK_PAIR(TYPE)                                                                                           \
  INLINE void block_pair_##TYPE(const Block* a, const Block* b, __global const char* x, __global const float* scale,      \
                                __global const int* minus, float16* acc_a, float16* acc_b)                                \
  {                                                                                                                       \
    __asm__ volatile(PAIR_4(PAIR_BEGIN_##TYPE) PAIR_4(PAIR_DOT_0) PAIR_4(PAIR_DOT_1) PAIR_4(PAIR_DOT_2) PAIR_4(PAIR_DOT_3) \
                         PAIR_4(PAIR_DOT_4) PAIR_4(PAIR_DOT_5) PAIR_4(PAIR_DOT_6) PAIR_4(PAIR_DOT_7)                      \
                         PAIR_4(PAIR_END_##TYPE)                                                                          \
                     :                                                                                                    \
                     : WEIGHT_INPUTS(a, a), WEIGHT_INPUTS(b, b), [da] "v"(a->d), [db] "v"(b->d), [x] "r"(x),              \
                       [scale] "r"(scale), [minus] "r"(minus), [acc_a] "r"(acc_a), [acc_b] "r"(acc_b)                     \
                           MINIMUM_INPUT_##TYPE(ma, a) MINIMUM_INPUT_##TYPE(mb, b)                                        \
                     : "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10", "zmm11",  \
                       "memory");                                                                                         \
  }

#define DEFINE_BLOCK(TYPE)                                                                                                \
  DEFINE_BLOCK_ROWS(TYPE, 4)                                                                                              \
  DEFINE_BLOCK_ROWS(TYPE, 2)                                                                                              \
  DEFINE_BLOCK_ROWS(TYPE, 1)                                                                                              \
  DEFINE_BLOCK_PAIR(TYPE)
DEFINE_BLOCK(Q8)
DEFINE_BLOCK(Q4)
DEFINE_BLOCK(Q41)

// Half a block of Q6: depths 16 * part to 16 * part + 15.
#define HALF_BEGIN(row, sum, x) "vmovdqa64 %[minus], %%zmm" sum "\n"
#define HALF_DOT(j, row, sum, x)                                            \
  "vpbroadcastd 4*" j "+32*" row "(%[x]), %%zmm" x "\n"                     \
  "vpxord %[flip], %%zmm" x ", %%zmm" x "\n"                                \
  "vpdpbusd %[a" j "], %%zmm" x ", %%zmm" sum "\n"
#define HALF_DOT_0(row, sum, x) HALF_DOT("0", row, sum, x)
#define HALF_DOT_1(row, sum, x) HALF_DOT("1", row, sum, x)
#define HALF_DOT_2(row, sum, x) HALF_DOT("2", row, sum, x)
#define HALF_DOT_3(row, sum, x) HALF_DOT("3", row, sum, x)
#define HALF_END(row, sum, x) ROW_ADD(row, sum, x) ROW_STORE(row, sum)
#define PAIR_HALF_BEGIN(row, a, b, x) "vmovdqa64 %[minus_a], %%zmm" a "\nvmovdqa64 %[minus_b], %%zmm" b "\n"
#define PAIR_HALF_DOT(j, row, a, b, x) HALF_DOT(j, row, a, x) "vpdpbusd %[b" j "], %%zmm" x ", %%zmm" b "\n"
#define PAIR_HALF_DOT_0(row, a, b, x) PAIR_HALF_DOT("0", row, a, b, x)
#define PAIR_HALF_DOT_1(row, a, b, x) PAIR_HALF_DOT("1", row, a, b, x)
#define PAIR_HALF_DOT_2(row, a, b, x) PAIR_HALF_DOT("2", row, a, b, x)
#define PAIR_HALF_DOT_3(row, a, b, x) PAIR_HALF_DOT("3", row, a, b, x)
#define HALF_INPUTS(n, block, part)                                                                                       \
  [n##0] "v"(block->w[4 * part]), [n##1] "v"(block->w[4 * part + 1]), [n##2] "v"(block->w[4 * part + 2]),                 \
      [n##3] "v"(block->w[4 * part + 3])
#define HALF_SCALES(block, part) (part ? block->m : block->d)
#define FLIP [flip] "v"((int16)(int)0x80808080)
#define DEFINE_HALF_ROWS(ROWS)                                                                                            \
  INLINE void half_rows_##ROWS(const Block* b, int part, __global const char* x, __global const float* scale,             \
                               float16* acc)                                                                              \
  {                                                                                                                       \
    __asm__ volatile(EACH_##ROWS(HALF_BEGIN) EACH_##ROWS(HALF_DOT_0) EACH_##ROWS(HALF_DOT_1) EACH_##ROWS(HALF_DOT_2)      \
                         EACH_##ROWS(HALF_DOT_3) EACH_##ROWS(ROW_CONVERT) EACH_##ROWS(HALF_END)                           \
                     :                                                                                                    \
                     : HALF_INPUTS(a, b, part), [d] "v"(HALF_SCALES(b, part)), [minus] "v"(b->minus[part]), FLIP,         \
                       [x] "r"(x + 16 * part), [scale] "r"(scale), [acc] "r"(acc)                                         \
                     : "zmm0", "zmm1", "zmm2", "zmm3", "zmm8", "zmm9", "zmm10", "zmm11", "memory");                       \
  }                                                                                                                       \
  INLINE void block_rows_Q6_##ROWS(const Block* b, __global const char* x, __global const float* scale,                   \
                                   __global const int* minus, float16* acc)                                               \
  {                                                                                                                       \
    half_rows_##ROWS(b, 0, x, scale, acc);                                                                                \
    half_rows_##ROWS(b, 1, x, scale, acc);                                                                                \
  }
DEFINE_HALF_ROWS(1)
DEFINE_HALF_ROWS(2)
DEFINE_HALF_ROWS(4)
INLINE void half_pair(const Block* a, const Block* b, int part, __global const char* x, __global const float* scale,
                      float16* acc_a, float16* acc_b)
{
  __asm__ volatile(PAIR_4(PAIR_HALF_BEGIN) PAIR_4(PAIR_HALF_DOT_0) PAIR_4(PAIR_HALF_DOT_1) PAIR_4(PAIR_HALF_DOT_2)
                       PAIR_4(PAIR_HALF_DOT_3) PAIR_4(PAIR_END_Q8)
                   :
                   : HALF_INPUTS(a, a, part), HALF_INPUTS(b, b, part), [da] "v"(HALF_SCALES(a, part)),
                     [db] "v"(HALF_SCALES(b, part)), [minus_a] "v"(a->minus[part]), [minus_b] "v"(b->minus[part]), FLIP,
                     [x] "r"(x + 16 * part), [scale] "r"(scale), [acc_a] "r"(acc_a), [acc_b] "r"(acc_b)
                   : "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10", "zmm11",
                     "memory");
}
INLINE void block_pair_Q6(const Block* a, const Block* b, __global const char* x, __global const float* scale,
                          __global const int* minus, float16* acc_a, float16* acc_b)
{
  half_pair(a, b, 0, x, scale, acc_a, acc_b);
  half_pair(a, b, 1, x, scale, acc_a, acc_b);
}

// acc[r] += the products of a panel, acc_b[r] those of another if there is one.
// KIND: whose block_rows and block_pair it is computed with.
#define DEFINE_INTEGER_ROWS(TYPE, KIND)                                                                                   \
  INLINE void last_rows_##TYPE(const Block* b, __global const char* x, __global const float* scale,                       \
                               __global const int* minus, int r, int rows, float16* acc)                                  \
  {                                                                                                                       \
    if (rows - r >= 2) {                                                                                                  \
      block_rows_##KIND##_2(b, x + r * 32, scale + r, minus + r * 2, acc + r);                                            \
      r += 2;                                                                                                             \
    }                                                                                                                     \
    if (r < rows) block_rows_##KIND##_1(b, x + r * 32, scale + r, minus + r * 2, acc + r);                                \
  }                                                                                                                       \
  static void integer_one_##TYPE(__global const uchar* panel, const LinearInput* in, int row0, int rows, int depth,       \
                                 float16* acc)                                                                            \
  {                                                                                                                       \
    const int near = NEAR_FOR_FEW_##TYPE && rows < 4, ahead = near ? AHEAD_FEW : AHEAD_##TYPE;                            \
    for (int k = 0; k < depth / 32; k++) {                                                                                \
      __global const uchar* block = panel + BLOCK_BYTES_##TYPE * k;                                                       \
      ask_for_block(block + BLOCK_BYTES_##TYPE * ahead, BLOCK_BYTES_##TYPE, near);                                        \
      const Block a = block_##TYPE(block);                                                                                \
      const size_t first = (size_t)k * in->rows + row0;                                                                   \
      __global const char* x = in->q + first * 32;                                                                        \
      __global const float* scale = in->scale + first;                                                                    \
      __global const int* minus = in->sum + first * 2;                                                                    \
      int r = 0;                                                                                                          \
      for (; r + 4 <= rows; r += 4) block_rows_##KIND##_4(&a, x + r * 32, scale + r, minus + r * 2, acc + r);             \
      last_rows_##TYPE(&a, x, scale, minus, r, rows, acc);                                                                \
    }                                                                                                                     \
  }                                                                                                                       \
  static void integer_pair_##TYPE(__global const uchar* panel, __global const uchar* panel_b, const LinearInput* in,      \
                                  int row0, int rows, int depth, float16* acc, float16* acc_b)                            \
  {                                                                                                                       \
    const int blocks = depth / 32, bytes = BLOCK_BYTES_##TYPE * blocks;                                                   \
    /* where b follows a, what is read next follows both */                                                               \
    const long skip = panel_b - panel == bytes ? bytes : 0;                                                               \
    for (int k = 0; k < blocks; k++) {                                                                                    \
      __global const uchar *at_a = panel + BLOCK_BYTES_##TYPE * k, *at_b = panel_b + BLOCK_BYTES_##TYPE * k;              \
      const long ahead = BLOCK_BYTES_##TYPE * AHEAD_##TYPE + (k + AHEAD_##TYPE < blocks ? 0 : skip);                      \
      ask_for_block(at_a + ahead, BLOCK_BYTES_##TYPE, 0);                                                                 \
      const Block a = block_##TYPE(at_a);                                                                                 \
      ask_for_block(at_b + ahead, BLOCK_BYTES_##TYPE, 0);                                                                 \
      const Block b = block_##TYPE(at_b);                                                                                 \
      const size_t first = (size_t)k * in->rows + row0;                                                                   \
      __global const char* x = in->q + first * 32;                                                                        \
      __global const float* scale = in->scale + first;                                                                    \
      __global const int* minus = in->sum + first * 2;                                                                    \
      int r = 0;                                                                                                          \
      for (; r + 4 <= rows; r += 4) {                                                                                     \
        block_pair_##KIND(&a, &b, x + r * 32, scale + r, minus + r * 2, acc + r, acc_b + r);                              \
      }                                                                                                                   \
      last_rows_##TYPE(&a, x, scale, minus, r, rows, acc);                                                                \
      last_rows_##TYPE(&b, x, scale, minus, r, rows, acc_b);                                                              \
    }                                                                                                                     \
  }                                                                                                                       \
  static void integer_rows_##TYPE(__global const uchar* a, __global const uchar* b, const LinearInput* in, int row0,      \
                                  int rows, int depth, float16* acc_a, float16* acc_b)                                    \
  {                                                                                                                       \
    if (b && rows >= 4) return integer_pair_##TYPE(a, b, in, row0, rows, depth, acc_a, acc_b);                            \
    integer_one_##TYPE(a, in, row0, rows, depth, acc_a);                                                                  \
    if (b) integer_one_##TYPE(b, in, row0, rows, depth, acc_b);                                                           \
  }

// Bytes of a block, which one to ask for (3 to 5 KiB ahead), and whether few rows meet blocks that are asked for nearer.
#define BLOCK_BYTES_Q8 544
#define AHEAD_Q8 6
#define NEAR_FOR_FEW_Q8 0
#define BLOCK_BYTES_Q4 288
#define AHEAD_Q4 12
#define NEAR_FOR_FEW_Q4 1
#define BLOCK_BYTES_NL 288
#define AHEAD_NL 12
#define NEAR_FOR_FEW_NL 1
#define BLOCK_BYTES_MX 272
#define AHEAD_MX 12
#define NEAR_FOR_FEW_MX 1
#define BLOCK_BYTES_Q41 320
#define AHEAD_Q41 12
#define NEAR_FOR_FEW_Q41 1
#define BLOCK_BYTES_Q51 384
#define AHEAD_Q51 12
#define NEAR_FOR_FEW_Q51 1
#define BLOCK_BYTES_Q6 448
#define AHEAD_Q6 12
#define NEAR_FOR_FEW_Q6 0
#ifndef AHEAD_FEW
#define AHEAD_FEW 12
#endif
// Asks for a block of `bytes` that is needed sooner than the processor finds out by itself when many rows meet each. Into the
// first-level cache, or (linear_vnni_l2.cl) the second: to the first some two dozen lines may be under way on Zen 4, where the
// rows are waiting, too. Few rows have room there; with 4 or 5 bits the first (`near`) is faster then. Reaches behind the last
// panel; prefetches do not fault.
INLINE void ask_for_block(__global const uchar* block, int bytes, int near)
{
  if (near) {
    _Pragma("unroll") for (int i = 0; i < bytes; i += 64) __asm__ volatile("prefetcht0 %c1(%0)" : : "r"(block), "i"(i));
  } else {
    _Pragma("unroll") for (int i = 0; i < bytes; i += 64) __asm__ volatile(ASK_FOR " %c1(%0)" : : "r"(block), "i"(i));
  }
}
INLINE void unpack(Block* b, __global const uchar* nibbles)
{
  _Pragma("unroll") for (int j = 0; j < 4; j++)
  {
    const int16 both = vload16(j, (__global const int*)nibbles);
    b->w[j] = both & 0x0F0F0F0F;
    b->w[4 + j] = (both >> 4) & 0x0F0F0F0F;
  }
}
INLINE void unpack_upper(int type, Block* b, __global const int* words)
{
  _Pragma("unroll") for (int j = 0; j < 8; j++) b->w[j] = four_numbers_16(type, words, j);
}
INLINE Block block_Q8(__global const uchar* block)
{
  Block b;
  b.d = vload_half16(0, (__global const half*)block);
  _Pragma("unroll") for (int j = 0; j < 8; j++) b.w[j] = vload16(j, (__global const int*)(block + 32)) ^ (int)0x80808080;
  return b;
}
INLINE Block block_Q4(__global const uchar* block)
{
  Block b;
  b.d = vload_half16(0, (__global const half*)block);
  unpack(&b, block + 32);
  return b;
}
// The numbers of a table that nibbles stand for, plus 128.
INLINE void unpack_table(Block* b, __global const uchar* nibbles, int4 table)
{
  const int16 numbers = (int16)(table, table, table, table) ^ (int)0x80808080;
  unpack(b, nibbles);
  _Pragma("unroll") for (int j = 0; j < 8; j++) __asm__("vpshufb %0, %1, %0" : "+v"(b->w[j]) : "v"(numbers));
}
INLINE Block block_NL(__global const uchar* block)
{
  Block b;
  b.d = vload_half16(0, (__global const half*)block);
  unpack_table(&b, block + 32, NL_NUMBERS);
  return b;
}
INLINE Block block_MX(__global const uchar* block)
{
  Block b;
  b.d = scales_16(TYPE_MXFP4, block);
  unpack_table(&b, block + 16, MX_NUMBERS);
  return b;
}
INLINE Block block_Q41(__global const uchar* block)
{
  Block b;
  b.d = vload_half16(0, (__global const half*)block);
  b.m = vload_half16(1, (__global const half*)block) * -0.125f;
  unpack(&b, block + 64);
  return b;
}
INLINE Block block_Q51(__global const uchar* block)
{
  Block b;
  b.d = vload_half16(0, (__global const half*)block);
  b.m = vload_half16(1, (__global const half*)block) * -0.125f;
  unpack_upper(TYPE_Q5_1, &b, (__global const int*)(block + 64));
  return b;
}
// The sum of each output's bytes in w[0..3], times -128.
INLINE int16 minus_of(const int16* w)
{
  int16 sum = 0;
  _Pragma("unroll") for (int j = 0; j < 4; j++)
  {
    __asm__("vpdpbusd %1, %2, %0" : "+v"(sum) : "v"(w[j]), "v"((int16)(int)0x80808080));
  }
  return -sum;
}
INLINE Block block_Q6(__global const uchar* block)
{
  Block b;
  b.d = vload_half16(0, (__global const half*)block);
  b.m = vload_half16(1, (__global const half*)block);
  unpack_upper(TYPE_Q6_K, &b, (__global const int*)(block + 64));
  b.minus[0] = minus_of(b.w);
  b.minus[1] = minus_of(b.w + 4);
  return b;
}
DEFINE_INTEGER_ROWS(Q8, Q8)
DEFINE_INTEGER_ROWS(Q4, Q4)
DEFINE_INTEGER_ROWS(NL, Q8)
DEFINE_INTEGER_ROWS(MX, Q8)
DEFINE_INTEGER_ROWS(Q41, Q41)
DEFINE_INTEGER_ROWS(Q51, Q41)
DEFINE_INTEGER_ROWS(Q6, Q6)

#if !LINEAR_AMX
static void linear_begin(void) {}
static void linear_end(void) {}
#endif

#define ROWS_OF(TYPE, ROWS) \
  if (IS_TYPE(type, TYPE)) return ROWS(a, b, in, row0, rows, depth, acc_a, acc_b);
static void linear_tile(int type, __global const uchar* a, __global const uchar* b, const LinearInput* in, int row0, int rows,
                        int depth, float16* acc_a, float16* acc_b)
{
  for (int r = 0; r < rows; r++) acc_a[r] = 0.0f;
  for (int r = 0; b && r < rows; r++) acc_b[r] = 0.0f;
#if LINEAR_AMX
  const int done = IS_TYPE(type, Q8_0) ? amx_rows(a, b, in, row0, rows, depth, acc_a, acc_b) : 0;
  if (done == rows) return;
  row0 += done;
  rows -= done;
  acc_a += done;
  acc_b += done;
#endif
  ROWS_OF(F16, float_rows_F16)
  ROWS_OF(F32, float_rows_F32)
  ROWS_OF(BF16, float_rows_BF16)
  ROWS_OF(Q8_0, integer_rows_Q8)
  ROWS_OF(Q4_0, integer_rows_Q4)
  ROWS_OF(Q4_1, integer_rows_Q41)
  ROWS_OF(Q5_1, integer_rows_Q51)
  ROWS_OF(IQ4_NL, integer_rows_NL)
  ROWS_OF(MXFP4, integer_rows_MX)
  ROWS_OF(Q6_K, integer_rows_Q6)
}
