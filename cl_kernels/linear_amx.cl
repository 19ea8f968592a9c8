// SPDX-License-Identifier: Apache-2.0
// linear_amx.cl: Q8_0 for groups of 16 rows of linear_vnni.cl, which follows it in a program, for x86 processors with AMX tiles
// of int8: Intel's Xeon since Sapphire Rapids. Contract and panel layouts: linear.cl; the bits are the same.
//   dots[16 rows][16 outputs] = x[16][32] * w[32][16], exact, one tdpbssd a block, whose weights are a tile as they stand
//   ([k/4][output][4]); then acc = fma(dot, d * scale, acc) in vector registers, which hold the group's acc over a stretch of K.
//   What bounds it (Emerald Rapids): 16 rows times a panel read 86 lines for a block, 43 cycles, and write 16, where
//   linear_vnni.cl computes for 88 cycles. While tiles are in use, one of the two ports does not multiply vectors of 512 bits,
//   but adds them. So the integers become floats by an addition: they are summed up from the bits of 3 * 2^22 on, which leaves
//   them in a float's lowest bits, and 3 * 2^22 is subtracted. No store waits for its product: the blocks are a pipeline of
//   product, store, and sum. (Sums begin as a tile from memory, since behind tilezero a product takes as long as three.)
//   Weights are asked for into the second-level cache, a stretch before they are needed, by the first groups alone; and stretches
//   are short, since the first level has room for little beside the rows.
//   Not so: fewer rows, which wait for memory; weights that have to be unpacked first,
//   which gained nothing; Q6_K, whose scales are for 16 depths.
// Measured: docs/performance/linear-layers.md. Test: tests/kernel/linear_test.cpp.
#define LINEAR_AMX 1
#define AMX_ROWS 16
#define STRETCH_BLOCKS 16  // of 32 depths: two panels of a stretch and a group's rows stay near

typedef struct {
  char dots[2][1024];  // of a block and of the one before it: [row][output] float, 3 * 2^22 + dot
  int begin[256];      // of the sums: bits of 3 * 2^22
} __attribute__((aligned(64))) AmxSpace;

// Tiles: 0, 1: dots, 2: x, 3: w.
static void linear_begin(void)
{
  // byte 0: palette 1; from 16 on: bytes of a tile's row, 2 bytes each; from 48 on: rows
  const uint words[16] __attribute__((aligned(64))) = {1, 0, 0, 0, 64 | 64 << 16, 32 | 64 << 16, 0, 0, 0, 0, 0, 0, 0x08101010};
  __asm__ volatile("ldtilecfg %0" : : "m"(words));
}
static void linear_end(void) { __asm__ volatile("tilerelease"); }

// Into tile P; asks for LINES of the block at `ask`; goes on to the next block's numbers and rows.
#define AMX_PRODUCT(P, LINES)                                               \
  "tileloadd (%[begin],%[s],2), %%tmm" #P "\n"                              \
  "tileloadd (%[x],%[s],1), %%tmm2\n"                                       \
  "tileloadd 32(%[w],%[s],2), %%tmm3\n"                                     \
  "tdpbssd %%tmm3, %%tmm2, %%tmm" #P "\n"                                   \
  LINES                                                                     \
  "add $544, %[w]\n"                                                        \
  "add $544, %[ask]\n"                                                      \
  "lea (%[x],%[t],8), %[x]\n"
#define AMX_ASK(LINES) ".irp i," LINES "\nprefetcht1 64*\\i(%[ask])\n.endr\n"
#define AMX_STORE_DOTS(P) "tilestored %%tmm" #P ", (%[to],%[s],2)\n"
#define AMX_SWAP "xchg %[to], %[dots]\n"
// M(row, the register of its acc)
#define AMX_EACH_ROW(M)                                                     \
  M("0", "16") M("1", "17") M("2", "18") M("3", "19") M("4", "20") M("5", "21") M("6", "22") M("7", "23")                 \
  M("8", "24") M("9", "25") M("10", "26") M("11", "27") M("12", "28") M("13", "29") M("14", "30") M("15", "31")
#define AMX_LOAD(row, acc) "vmovups 64*" row "(%[acc]), %%zmm" acc "\n"
#define AMX_STORE(row, acc) "vmovups %%zmm" acc ", 64*" row "(%[acc])\n"
#define AMX_ROW(row, acc)                                                   \
  "vaddps 64*" row "(%[dots]), %[back], %%zmm0\n"                           \
  "vmulps 4*" row "(%[scale])" BROADCAST ", %%zmm2, %%zmm1\n"               \
  "vfmadd231ps %%zmm1, %%zmm0, %%zmm" acc "\n"
// Adds a block's products; goes on to the next block's scales, of outputs and of rows.
#define AMX_SUM                                                             \
  "vcvtph2ps (%[d]), %%zmm2\n" AMX_EACH_ROW(AMX_ROW)                        \
  "add $544, %[d]\n"                                                        \
  "add %[t], %[scale]\n"

// acc[r] += the products of `count` blocks with AMX_ROWS rows: an odd block, then pairs.
//   ask: what is read next, of which it asks for LINES a block. t: bytes of the scales of all rows of a block, an eighth of
//   those of their numbers.
#define DEFINE_AMX_GROUP(NAME, LINES)                                                                                     \
  static void NAME(__global const uchar* w, long count, __global const uchar* ask, __global const char* x,                \
                   __global const float* scale, long t, AmxSpace* space, float16* acc)                                    \
  {                                                                                                                       \
    __global const uchar* d = w;                                                                                          \
    char *to = space->dots[0], *dots = space->dots[1];                                                                    \
    __asm__ volatile(AMX_EACH_ROW(AMX_LOAD)                                                                               \
                     "shr $1, %[n]\n"                                                                                     \
                     "jnc 1f\n"                                                                                           \
                     AMX_PRODUCT(0, LINES) AMX_STORE_DOTS(0) AMX_SWAP AMX_SUM                                             \
                     "1: test %[n], %[n]\n"                                                                               \
                     "jz 4f\n" AMX_PRODUCT(0, LINES) AMX_STORE_DOTS(0) AMX_PRODUCT(1, LINES) AMX_SWAP                     \
                     "dec %[n]\n"                                                                                         \
                     "jz 3f\n"                                                                                            \
                     "2:\n" AMX_PRODUCT(0, LINES) AMX_SUM AMX_STORE_DOTS(1) AMX_SWAP                                      \
                     AMX_PRODUCT(1, LINES) AMX_SUM AMX_STORE_DOTS(0) AMX_SWAP                                             \
                     "dec %[n]\n"                                                                                         \
                     "jnz 2b\n"                                                                                           \
                     "3:\n" AMX_STORE_DOTS(1) AMX_SUM AMX_SWAP AMX_SUM                                                    \
                     "4:\n" AMX_EACH_ROW(AMX_STORE)                                                                       \
                     : [w] "+r"(w), [d] "+r"(d), [x] "+r"(x), [scale] "+r"(scale), [to] "+r"(to), [dots] "+r"(dots),      \
                       [n] "+r"(count), [ask] "+r"(ask)                                                                   \
                     : [t] "r"(t), [s] "r"(32L), [begin] "r"(space->begin), [acc] "r"(acc),                               \
                       [back] "v"((float16)(-12582912.0f))                                                                \
                     : "cc", "memory", "zmm0", "zmm1", "zmm2", "zmm16", "zmm17", "zmm18", "zmm19", "zmm20", "zmm21",      \
                       "zmm22", "zmm23", "zmm24", "zmm25", "zmm26", "zmm27", "zmm28", "zmm29", "zmm30", "zmm31");         \
  }
DEFINE_AMX_GROUP(amx_group, "")
DEFINE_AMX_GROUP(amx_group_asking_for_half, AMX_ASK("0,1,2,3,4"))
DEFINE_AMX_GROUP(amx_group_asking, AMX_ASK("0,1,2,3,4,5,6,7,8"))
#define HALF_BYTES (5 * 64)

// The groups of the rows from row0 on; how many rows that are. acc: as linear_tile() has to leave them; begin at 0.
static int amx_rows(__global const uchar* a, __global const uchar* b, const LinearInput* in, int row0, int rows, int depth,
                    float16* acc_a, float16* acc_b)
{
  if (rows < AMX_ROWS) return 0;
  const int groups = rows / AMX_ROWS, blocks = depth / 32, stretches = (blocks + STRETCH_BLOCKS - 1) / STRETCH_BLOCKS;
  const int stretch = ((blocks + stretches - 1) / stretches + 1) & ~1;  // an odd block waits for its product
  const long bytes = panel_bytes(TYPE_Q8_0, 32);
  AmxSpace space;
  for (int i = 0; i < 16; i++) vstore16((int16)(0x4B400000), i, space.begin);
  for (int k = 0; k < blocks; k += stretch) {
    const int count = min(stretch, blocks - k);
    // What is read next: the panel's next stretch; behind the last one, where b follows a, that of the panel after both.
    const long next = bytes * (k + count < blocks || b - a != bytes * blocks ? count : count + blocks);
    for (int g = 0; g < groups; g++) {
      const size_t first = (size_t)k * in->rows + row0 + g * AMX_ROWS;
      for (int p = 0; p < (b ? 2 : 1); p++) {
        __global const uchar* w = (p ? b : a) + bytes * k;
        float16* acc = (p ? acc_b : acc_a) + g * AMX_ROWS;
        __global const char* x = in->q + first * 32;
        __global const float* scale = in->scale + first;
        const long t = 4L * in->rows;
        if (row0 > 0 || g > 1) {  // the weights are near
          amx_group(w, count, w, x, scale, t, &space, acc);
        } else if (groups > 1) {
          amx_group_asking_for_half(w, count, w + next + g * HALF_BYTES, x, scale, t, &space, acc);
        } else {
          amx_group_asking(w, count, w + next, x, scale, t, &space, acc);
        }
      }
    }
  }
  return groups * AMX_ROWS;
}
