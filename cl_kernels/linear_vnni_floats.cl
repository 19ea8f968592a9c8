// SPDX-License-Identifier: Apache-2.0
// linear_vnni_floats.cl: the weights F32, F16 and BF16 of linear_vnni.cl, which follows it in a program, and what both need.
//   8 rows times a stretch of two panels that stays in the first-level cache. Contract and panel layouts: linear.cl.
// Measured: docs/PERFORMANCE.md. Test: tests/kernel/linear_test.cpp.
#define LINEAR_ROWS 64
#define STRETCH_DEPTH 256  // F16: 8 KiB of the panel
#define FLOATS_AHEAD 2048  // bytes of a panel of floats that are asked for before they are read
#ifndef ASK_FOR
#define ASK_FOR "prefetcht0"  // weights into the first-level cache
#endif
#ifndef FLOATS_AHEAD_FEW
#define FLOATS_AHEAD_FEW FLOATS_AHEAD
#endif
// By the rows that meet a number. Few wait for nothing but memory.
#define ASK_FOR_1 "prefetcht0"
#define ASK_FOR_2 "prefetcht0"
#define ASK_FOR_4 ASK_FOR
#define ASK_FOR_8 ASK_FOR
#define INLINE static inline __attribute__((always_inline))

#define BROADCAST "%{1to16%}"

// Floats. Rows 0..7 are at x, x + s, x + 2s, y = x + 3s, x + 4s, y + 2s, z = x + 6s, y + 4s.
#define FLOATS_1(M) M("(%[x])", "0")
#define FLOATS_2(M) FLOATS_1(M) M("(%[x],%[s])", "1")
#define FLOATS_4(M) FLOATS_2(M) M("(%[x],%[s],2)", "2") M("(%[y])", "3")
#define FLOATS_8(M) FLOATS_4(M) M("(%[x],%[s],4)", "4") M("(%[y],%[s],2)", "5") M("(%[z])", "6") M("(%[y],%[s],4)", "7")
#define FLOAT_ROW(at, row) "vfmadd231ps " at BROADCAST ", %%zmm8, %%zmm" row "\n"
#define FLOAT_ROW_NEXT(at, row) "vfmadd231ps 4" at BROADCAST ", %%zmm9, %%zmm" row "\n"
#define ACC_LOAD(at, row) "vmovups 64*" row "(%[acc]), %%zmm" row "\n"
#define ACC_STORE(at, row) "vmovups %%zmm" row ", 64*" row "(%[acc])\n"
#define LOAD_F16(at, to) "vcvtph2ps 32*" at "(%[w]), %%zmm" to "\n"
#define LOAD_F32(at, to) "vmovups 64*" at "(%[w]), %%zmm" to "\n"
#define LOAD_BF16(at, to) "vpmovzxwd 32*" at "(%[w]), %%zmm" to "\nvpslld $16, %%zmm" to ", %%zmm" to "\n"
// acc[r] += the products of `count` depths with rows r = 0..ROWS-1, two depths at a time.
#define DEFINE_FLOAT_TILE(TYPE, ROWS, BYTES)                                                                              \
  INLINE void floats_##TYPE##_##ROWS(__global const uchar* w, __global const float* x, long stride, long count, float16* acc) \
  {                                                                                                                       \
    __global const float *y = x + 3 * stride, *z = x + 6 * stride;                                                        \
    long pairs = count / 2;                                                                                               \
    __asm__ volatile(FLOATS_##ROWS(ACC_LOAD)                                                                              \
                     "test %[n], %[n]\n"                                                                                  \
                     "jz 2f\n"                                                                                            \
                     "1:\n" LOAD_##TYPE("0", "8") LOAD_##TYPE("1", "9")                                                   \
                     ASK_FOR_##ROWS " 2048(%[w])\n" FLOATS_##ROWS(FLOAT_ROW) FLOATS_##ROWS(FLOAT_ROW_NEXT)               \
                     "add $2*" #BYTES ", %[w]\n"                                                                          \
                     "add $8, %[x]\n"                                                                                     \
                     "add $8, %[y]\n"                                                                                     \
                     "add $8, %[z]\n"                                                                                     \
                     "dec %[n]\n"                                                                                         \
                     "jnz 1b\n"                                                                                           \
                     "2: test $1, %[count]\n"                                                                             \
                     "jz 3f\n" LOAD_##TYPE("0", "8") FLOATS_##ROWS(FLOAT_ROW)                                             \
                     "3:\n" FLOATS_##ROWS(ACC_STORE)                                                                      \
                     : [w] "+r"(w), [x] "+r"(x), [y] "+r"(y), [z] "+r"(z), [n] "+r"(pairs)                                \
                     : [s] "r"(4 * stride), [acc] "r"(acc), [count] "r"(count)                                            \
                     : "cc", "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "memory");   \
  }
// The same for two panels, which share the broadcasts: rows' sums of panel a in zmm0..7, of b in zmm8..15.
#if BROADCAST_OPERANDS
#define FLOAT_PAIR(at, a, b)                                                \
  "vfmadd231ps " at BROADCAST ", %%zmm16, %%zmm" a "\n"                     \
  "vfmadd231ps " at BROADCAST ", %%zmm17, %%zmm" b "\n"
#else
#define FLOAT_PAIR(at, a, b)                                                \
  "vbroadcastss " at ", %%zmm18\n"                                          \
  "vfmadd231ps %%zmm18, %%zmm16, %%zmm" a "\n"                              \
  "vfmadd231ps %%zmm18, %%zmm17, %%zmm" b "\n"
#endif
#define PAIR_ROWS_1(M) M("(%[x])", "0", "8")
#define PAIR_ROWS_2(M) PAIR_ROWS_1(M) M("(%[x],%[s])", "1", "9")
#define PAIR_ROWS_4(M) PAIR_ROWS_2(M) M("(%[x],%[s],2)", "2", "10") M("(%[y])", "3", "11")
#define PAIR_ROWS_8(M)                                                      \
  PAIR_ROWS_4(M) M("(%[x],%[s],4)", "4", "12") M("(%[y],%[s],2)", "5", "13") M("(%[z])", "6", "14") M("(%[y],%[s],4)", "7", "15")
#define PAIR_SUMS_1(M) M("0", "8")
#define PAIR_SUMS_2(M) PAIR_SUMS_1(M) M("1", "9")
#define PAIR_SUMS_4(M) PAIR_SUMS_2(M) M("2", "10") M("3", "11")
#define PAIR_SUMS_8(M) PAIR_SUMS_4(M) M("4", "12") M("5", "13") M("6", "14") M("7", "15")
#define PAIR_LOAD(a, b) "vmovups 64*" a "(%[acc_a]), %%zmm" a "\nvmovups 64*" a "(%[acc_b]), %%zmm" b "\n"
#define PAIR_STORE(a, b) "vmovups %%zmm" a ", 64*" a "(%[acc_a])\nvmovups %%zmm" b ", 64*" a "(%[acc_b])\n"
#define LOAD_PAIR_F16 "vcvtph2ps (%[w]), %%zmm16\nvcvtph2ps (%[w],%[b]), %%zmm17\n"
#define LOAD_PAIR_F32 "vmovups (%[w]), %%zmm16\nvmovups (%[w],%[b]), %%zmm17\n"
#define LOAD_PAIR_BF16                                                      \
  "vpmovzxwd (%[w]), %%zmm16\nvpslld $16, %%zmm16, %%zmm16\n"               \
  "vpmovzxwd (%[w],%[b]), %%zmm17\nvpslld $16, %%zmm17, %%zmm17\n"
#define DEFINE_FLOAT_PAIR(TYPE, ROWS, BYTES)                                                                              \
  INLINE void float_pair_##TYPE##_##ROWS(__global const uchar* w, long b, long ahead, __global const float* x,            \
                                         long stride, long count, float16* acc_a, float16* acc_b)                         \
  {                                                                                                                       \
    __global const float *y = x + 3 * stride, *z = x + 6 * stride;                                                        \
    __global const uchar* next = w + ahead;                                                                               \
    __asm__ volatile(PAIR_SUMS_##ROWS(PAIR_LOAD) "1:\n" LOAD_PAIR_##TYPE                                                  \
                     ASK_FOR_##ROWS " (%[next])\n"                                                                       \
                     ASK_FOR_##ROWS " (%[next],%[b])\n" PAIR_ROWS_##ROWS(FLOAT_PAIR)                                     \
                     "add $" #BYTES ", %[w]\n"                                                                            \
                     "add $" #BYTES ", %[next]\n"                                                                         \
                     "add $4, %[x]\n"                                                                                     \
                     "add $4, %[y]\n"                                                                                     \
                     "add $4, %[z]\n"                                                                                     \
                     "dec %[n]\n"                                                                                         \
                     "jnz 1b\n" PAIR_SUMS_##ROWS(PAIR_STORE)                                                              \
                     : [w] "+r"(w), [x] "+r"(x), [y] "+r"(y), [z] "+r"(z), [n] "+r"(count), [next] "+r"(next)             \
                     : [b] "r"(b), [s] "r"(4 * stride), [acc_a] "r"(acc_a), [acc_b] "r"(acc_b)                            \
                     : "cc", "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10",     \
                       "zmm11", "zmm12", "zmm13", "zmm14", "zmm15", "zmm16", "zmm17", "zmm18", "memory");                 \
  }
// Rows r..r+ROWS-1 of one panel or of two.
#define FLOATS(TYPE, ROWS, r)                                                                                             \
  {                                                                                                                       \
    if (b) {                                                                                                              \
      float_pair_##TYPE##_##ROWS(w, b - a, ahead, x + (size_t)r * depth, depth, count, acc_a + r, acc_b + r);                    \
    } else {                                                                                                              \
      floats_##TYPE##_##ROWS(w, x + (size_t)r * depth, depth, count, acc_a + r);                                          \
    }                                                                                                                     \
  }
#define DEFINE_FLOAT_ROWS(TYPE, BYTES)                                                                                    \
  DEFINE_FLOAT_TILE(TYPE, 8, BYTES)                                                                                       \
  DEFINE_FLOAT_TILE(TYPE, 4, BYTES)                                                                                       \
  DEFINE_FLOAT_TILE(TYPE, 2, BYTES)                                                                                       \
  DEFINE_FLOAT_TILE(TYPE, 1, BYTES)                                                                                       \
  DEFINE_FLOAT_PAIR(TYPE, 8, BYTES)                                                                                       \
  DEFINE_FLOAT_PAIR(TYPE, 4, BYTES)                                                                                       \
  DEFINE_FLOAT_PAIR(TYPE, 2, BYTES)                                                                                       \
  DEFINE_FLOAT_PAIR(TYPE, 1, BYTES)                                                                                       \
  static void float_rows_##TYPE(__global const uchar* a, __global const uchar* b, const LinearInput* in, int row0,        \
                                int rows, int depth, float16* acc_a, float16* acc_b)                                      \
  {                                                                                                                       \
    const int stretch = rows < 8 ? depth : STRETCH_DEPTH;                                                                 \
    const int bytes_ahead = rows < 4 ? FLOATS_AHEAD_FEW : FLOATS_AHEAD, last = max(depth - bytes_ahead / BYTES, 0);       \
    for (int k = 0, count; k < depth; k += count) {                                                                       \
      __global const uchar* w = a + (size_t)k * BYTES;                                                                    \
      __global const float* x = in->x + (size_t)row0 * depth + k;                                                         \
      count = min(stretch, (k < last ? last : depth) - k);                                                                \
      /* where b follows a, what is read next follows both */                                                             \
      const long ahead = bytes_ahead + (k < last || b - a != (long)depth * BYTES ? 0 : b - a);                            \
      int r = 0;                                                                                                          \
      for (; r + 8 <= rows; r += 8) FLOATS(TYPE, 8, r)                                                                    \
      if ((rows - r) & 4) {                                                                                               \
        FLOATS(TYPE, 4, r)                                                                                                \
        r += 4;                                                                                                           \
      }                                                                                                                   \
      if ((rows - r) & 2) {                                                                                               \
        FLOATS(TYPE, 2, r)                                                                                                \
        r += 2;                                                                                                           \
      }                                                                                                                   \
      if (r < rows) FLOATS(TYPE, 1, r)                                                                                    \
    }                                                                                                                     \
  }
DEFINE_FLOAT_ROWS(F16, 32)
DEFINE_FLOAT_ROWS(F32, 64)
DEFINE_FLOAT_ROWS(BF16, 32)
