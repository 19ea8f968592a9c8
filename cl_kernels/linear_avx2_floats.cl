// SPDX-License-Identifier: Apache-2.0
// linear_avx2_floats.cl: the weights F32, F16 and BF16 of linear_avx2.cl, which follows it in a program, and what both need.
//   Tiles of up to 6 rows meet a stretch of a panel that stays in the first-level cache; one row meets two panels at once, since
//   a sum waits for the one before it. Contract and panel layouts: linear.cl.
// Measured: docs/performance/linear-layers.md. Test: tests/kernel/linear_test.cpp.
#define LINEAR_ROWS 48
#define STRETCH_DEPTH 256        // F16: 8 KiB
#define FLOATS_AHEAD 2048        // bytes of a panel that are asked for before they are read
#define FLOATS_AHEAD_OF_ROW 1024 // the same for one row
#define INLINE static inline __attribute__((always_inline))

// Rows a..f of a tile: two sums each.
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

// Asks for the cache lines [at, at + bytes); a prefetch does not fault.
INLINE void ask_for(__global const uchar* at, int bytes)
{
  _Pragma("unroll") for (int i = 0; i < bytes; i += 64) __asm__ volatile("prefetcht0 %c1(%0)" : : "r"(at), "i"(i));
}

// What comes next when `left` of something remain: as few parts of at most `most` as possible, their sizes within 1.
static int next_part(int left, int most)
{
  const int parts = (left + most - 1) / most;
  return (left + parts - 1) / parts;
}

// acc += the products of `count` depths; w: a panel's weights of the first.
#define LOAD_F16 "vcvtph2ps (%[w]), %%ymm12\n" "vcvtph2ps 16(%[w]), %%ymm13\n"
#define LOAD_F32 "vmovups (%[w]), %%ymm12\n" "vmovups 32(%[w]), %%ymm13\n"
#define LOAD_BF16                                                                             \
  "vpmovzxwd (%[w]), %%ymm12\n"                                                               \
  "vpmovzxwd 16(%[w]), %%ymm13\n"                                                             \
  "vpslld $16, %%ymm12, %%ymm12\n"                                                            \
  "vpslld $16, %%ymm13, %%ymm13\n"
#define FLOAT_ROW(at, row)                                                                    \
  "vbroadcastss " at ", %%ymm14\n"                                                            \
  "vfmadd231ps %%ymm12, %%ymm14, %[" row "0]\n"                                               \
  "vfmadd231ps %%ymm13, %%ymm14, %[" row "1]\n"
#define DEFINE_FLOATS(ROWS, TYPE, BYTES)                                                      \
  static void floats_##TYPE##_##ROWS(__global const uchar* w, __global const char* x, int stride, int count, float16* acc) \
  {                                                                                           \
    float8 sum[2 * ROWS];                                                                     \
    __global const char* y = x + 3 * (long)stride;                                            \
    long n = count;                                                                           \
    _Pragma("unroll") for (int r = 0; r < ROWS; r++) { sum[2 * r] = acc[r].lo; sum[2 * r + 1] = acc[r].hi; } \
    __asm__("1:\n" LOAD_##TYPE                                                                \
            "prefetcht0 %c[ahead](%[w])\n" EACH_##ROWS(FLOAT_ROW)                             \
            "add $" #BYTES ", %[w]\n"                                                         \
            "add $4, %[x]\n"                                                                  \
            "add $4, %[y]\n"                                                                  \
            "dec %[n]\n"                                                                      \
            "jnz 1b\n"                                                                        \
            : SUMS_##ROWS, [w] "+r"(w), [x] "+r"(x), [y] "+r"(y), [n] "+r"(n)                 \
            : [s] "r"((long)stride), [ahead] "i"(FLOATS_AHEAD)                                \
            : "cc", "ymm12", "ymm13", "ymm14", "memory");                                     \
    _Pragma("unroll") for (int r = 0; r < ROWS; r++) acc[r] = (float16)(sum[2 * r], sum[2 * r + 1]); \
  }
#define DEFINE_FLOAT_TILES(TYPE, BYTES)                                                       \
  DEFINE_FLOATS(2, TYPE, BYTES)                                                               \
  DEFINE_FLOATS(3, TYPE, BYTES)                                                               \
  DEFINE_FLOATS(4, TYPE, BYTES)                                                               \
  DEFINE_FLOATS(5, TYPE, BYTES)                                                               \
  DEFINE_FLOATS(6, TYPE, BYTES)
DEFINE_FLOAT_TILES(F16, 32)
DEFINE_FLOAT_TILES(F32, 64)
DEFINE_FLOAT_TILES(BF16, 32)

#define FLOAT_CASES(TYPE)                                                                     \
  switch (tile) {                                                                             \
    case 6: floats_##TYPE##_6(w, row, 4 * depth, count, acc + r); break;                      \
    case 5: floats_##TYPE##_5(w, row, 4 * depth, count, acc + r); break;                      \
    case 4: floats_##TYPE##_4(w, row, 4 * depth, count, acc + r); break;                      \
    case 3: floats_##TYPE##_3(w, row, 4 * depth, count, acc + r); break;                      \
    default: floats_##TYPE##_2(w, row, 4 * depth, count, acc + r); break;                     \
  }
// REQUIRES: rows >= 2, so that no tile has one.
static void float_rows(int type, __global const uchar* panel, const LinearInput* in, int row0, int rows, int depth, float16* acc)
{
  const int bytes = type == TYPE_F32 ? 64 : 32;
  for (int k0 = 0; k0 < depth; k0 += STRETCH_DEPTH) {
    const int count = min(STRETCH_DEPTH, depth - k0);
    __global const uchar* w = panel + (size_t)bytes * k0;
    for (int r = 0, tile; r < rows; r += tile) {
      tile = next_part(rows - r, 6);
      __global const char* row = (__global const char*)(in->x + (size_t)(row0 + r) * depth + k0);
      if (IS_TYPE(type, F16)) {
        FLOAT_CASES(F16)
      } else if (IS_TYPE(type, F32)) {
        FLOAT_CASES(F32)
      } else if (HAS_TYPE(BF16)) {
        FLOAT_CASES(BF16)
      }
    }
  }
}

INLINE float16 weights_at(int type, __global const uchar* panel, int k)
{
  if (type == TYPE_F16) return vload_half16(k, (__global const half*)panel);
  if (type == TYPE_F32) return vload16(k, (__global const float*)panel);
  return as_float16(convert_uint16(vload16(k, (__global const ushort*)panel)) << (uint16)(16));
}

// One row; b may be a.
static void float_row(int type, __global const uchar* a, __global const uchar* b, const LinearInput* in, int row, int depth,
                      float16* acc_a, float16* acc_b)
{
  __global const float* x = in->x + (size_t)row * depth;
  const int bytes = type == TYPE_F32 ? 64 : 32;
  float16 sum_a = 0.0f, sum_b = 0.0f;
  for (int k = 0; k < depth; k++) {
    ask_for(a + bytes * k + FLOATS_AHEAD_OF_ROW, 32);
    ask_for(b + bytes * k + FLOATS_AHEAD_OF_ROW, 32);
    sum_a = fma(weights_at(type, a, k), (float16)(x[k]), sum_a);
    sum_b = fma(weights_at(type, b, k), (float16)(x[k]), sum_b);
  }
  *acc_a = sum_a;
  *acc_b = sum_b;
}
