// SPDX-License-Identifier: Apache-2.0
// groups_dots.cl: dot[n][r] = sum_k w[n, k] * x[r, k] of a block of 32 depths, for a panel's 16 outputs n and 8 rows r; exact.
//   32 threads (a warp, where there is one) share them: thread l has the outputs l / 4 * 2 and the next, of the rows
//   l % 4 * 2 and the next. That is the layout of NVIDIA's mma.m16n8k32 (PTX ISA 7.0), one instruction for all, which does not
//   mind in which order outputs and depths come: so a thread reads two words of two outputs, and two of a row. Elsewhere it
//   multiplies 4 numbers at a time. Layouts: linear.cl. Test: tests/kernel/linear_test.cpp.

#define WARP 32

#if MMA_INT8  // NVIDIA, compute capability 8.0 or more
#define WEIGHT_WORDS 2  // of 4 depths, of each of a thread's two outputs
#define FIRST_WORD(lane) ((lane) % 4 * 2)
typedef struct { int2 pair; } RowPart;  // two words of row lane / 4
#else
#define WEIGHT_WORDS 8
#define FIRST_WORD(lane) 0
typedef struct { int2 pair[2][4]; } RowPart;  // all words of two rows
#endif
typedef struct { int2 word[WEIGHT_WORDS]; } WeightPart;  // x and y: of the thread's two outputs

static void load_weights(int type, __global const uchar* block, int lane, WeightPart* to)
{
  __global const int* words = (__global const int*)(block + head_bytes(type)) + lane / 4 * 2;
#pragma unroll
  for (int i = 0; i < WEIGHT_WORDS; i++) {
    const int k4 = FIRST_WORD(lane) + i;
    to->word[i] = type == TYPE_Q8_0 ? LOAD_2(k4, words) : four_numbers_2(type, words, k4);
  }
}

// The scales of the thread's two outputs, or (half 1) their second scales or minima.
static float2 load_scales(int type, __global const uchar* block, int which, int lane)
{
  if (type == TYPE_MXFP4) return as_float2(convert_int2(vload2(lane / 4, block)) << 23);
  return vload_half2(8 * which + lane / 4, (__global const half*)block);
}

// Of 8 rows, of which `rows` are there. q: the first of them in a block of 32 depths.
static void load_rows(__global const char* q, int rows, int lane, RowPart* to)
{
  __global const int2* pairs = (__global const int2*)q;
#if MMA_INT8
  to->pair = lane / 4 < rows ? pairs[lane] : (int2)(0);
#else
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int row = lane % 4 * 2 + i / 4;
    to->pair[i / 4][i % 4] = row < rows ? pairs[row * 4 + i % 4] : (int2)(0);
  }
#endif
}

// Of all depths, or (part 0, 1) of the first or last 16: integers of the thread's first output (x, y), of its second (z, w).
#define ALL_DEPTHS 2
static int4 dots(const WeightPart* a, const RowPart* b, int part, int lane)
{
#if MMA_INT8
  // By arithmetic: mma wants all threads of the warp to come together, so no branches here.
  const int keep = -(part == ALL_DEPTHS || part == lane % 4 / 2);
  const int2 first = a->word[0] & keep, second = a->word[1] & keep;
  int x, y, z, w;
  __asm__ volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
      : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
      : "r"(first.x), "r"(first.y), "r"(second.x), "r"(second.y), "r"(b->pair.x), "r"(b->pair.y), "r"(0));
  return (int4)(x, y, z, w);
#else
  int4 c = 0;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    if (part != ALL_DEPTHS && part != i / 4) continue;
    const int4 w0 = convert_int4(as_char4(a->word[i].x)), w1 = convert_int4(as_char4(a->word[i].y));
    const int4 x0 = convert_int4(as_char4(i % 2 ? b->pair[0][i / 2].y : b->pair[0][i / 2].x));
    const int4 x1 = convert_int4(as_char4(i % 2 ? b->pair[1][i / 2].y : b->pair[1][i / 2].x));
    const int4 p = w0 * x0, q = w0 * x1, r = w1 * x0, s = w1 * x1;
    c += (int4)(p.x + p.y, q.x + q.y, r.x + r.y, s.x + s.y) + (int4)(p.z + p.w, q.z + q.w, r.z + r.w, s.z + s.w);
  }
  return c;
#endif
}
