// SPDX-License-Identifier: Apache-2.0
// stage.cl: how a step is described to the device; the twin of src/ops/stage.h, field by field.
//   A step is a list of stages; a stage is `items` independent pieces of work of one operation, each done by one
//   <operation>_item(). Stages of one counter run at the same time; a stage begins when the items behind its wait_counter
//   are done. Offsets: `int`, in floats within `act`, in ints within `step`, in floats within `vectors`; -1 = none.

#define TYPE_F32 0
#define TYPE_F16 1
#define TYPE_Q4_0 2
#define TYPE_Q4_1 3
#define TYPE_Q5_1 7
#define TYPE_Q8_0 8
#define TYPE_Q6_K 14
#define TYPE_IQ4_NL 20
#define TYPE_I16 25  // of KV storage only
#define TYPE_BF16 30
#define TYPE_MXFP4 39

// -D WEIGHT_TYPES=BITS: a bit for each type that the model's matrices have; what reads others is left out of the program, which
// compiles in less time.
#ifndef WEIGHT_TYPES
#define WEIGHT_TYPES -1L
#endif
#define HAS_TYPE(TYPE) (((WEIGHT_TYPES) >> TYPE_##TYPE & 1) != 0)
#define IS_TYPE(type, TYPE) (HAS_TYPE(TYPE) && (type) == TYPE_##TYPE)
#define FLOAT_TYPES (1L << TYPE_F32 | 1L << TYPE_F16 | 1L << TYPE_BF16)
#define HAS_FLOATS (((WEIGHT_TYPES) & FLOAT_TYPES) != 0)
#define HAS_BLOCKS (((WEIGHT_TYPES) & ~FLOAT_TYPES) != 0)

#define OP_EMBED 0
#define OP_NORM 1
#define OP_LINEAR 2
#define OP_ROPE 3
#define OP_ATTENTION 4
#define OP_COMBINE 5
#define OP_STATISTICS 6
#define OP_SAMPLE 7
#define OP_CHANGE 8
#define OP_SHRINK 9  // these two with -D ADAPTERS=1 only
#define OP_EXPAND 10
#define OP_SWIGLU 11  // with -D SWIGLU=1 only
#define OP_ROUTE 12  // these with -D EXPERTS=1 only
#define OP_SORT 13
#define OP_GATHER 14
#define OP_EXPERTS 15
#define OP_MERGE 16
#define OP_CONVOLVE 17  // these with -D STATE_KIND only, the last two with -D KEY_HEADS above 0
#define OP_UPDATE 18
#define OP_READ 19
#define OP_DIVIDE 20  // these with -D LATENT=1 only
#define OP_HEADS 21
#define OP_WIDEN 22  // these with -D WIDE_HEADS=1 only
#define OP_NARROW 23

#define STATE_DELTA_NET 1  // -D STATE_KIND; undefined: there are no states
#define STATE_SHORT_CONVOLUTION 2
#define STATE_MAMBA_2 3

#define EPILOGUE_STORE 0
#define EPILOGUE_ADD 1
#define EPILOGUE_SWIGLU 2
#define EPILOGUE_LOGITS 3
#define EPILOGUE_ACTIVATE 4  // with -D UNGATED=1 only
#if UNGATED
#define ACTIVATES(args) ((args)->epilogue == EPILOGUE_ACTIVATE)
#else
#define ACTIVATES(args) 0
#endif

typedef struct {
  int type;     // TYPE_*
  int chunk;    // which of the weight buffers
  int offset;   // of the first panel, in units of 64 bytes
  int depth;    // K
  int outputs;  // N
} Weight;

// Rows for the next linear layer: floats, or blocks of 32 int8 with a scale and sums of the block's int8 each. Either kind
// may be absent (-1). T: the rows of this stage.
typedef struct {
  int floats;  // [T][K] f32
  int bytes;   // [K/32][T][32] int8 (offset in floats, too)
  int scales;  // [K/32][T] f32
  int sums;    // [K/32][T][2] int (meaning: linear.cl)
} Rows;

typedef struct { Weight table; int tokens, out; float scale; } EmbedArgs;
// rows: of `parts` to a row of the step. after: of a number that the sums at added_to are multiplied by; -1: none.
typedef struct {
  int in, rows_from, weight, depth;
  float epsilon, scale;
  int rows;
  Rows out;
  int added_to, after, parts;
  int bias;  // with -D MEAN_NORMS=1 only; -1: none
} NormArgs;
typedef struct {
  Weight weight[2];
  int bias[2];
  Rows in, out;    // STORE and ADD write out.floats alone
  int epilogue, out_stride, rows;
  int panels;                   // of an item
  int long_items, long_panels;  // the first items have more of them
} LinearArgs;
typedef struct {
  int query, key, value, positions, tables, layer;  // key -1: K and V are another layer's
  int unit, kv_heads;  // the first of the layer's units in a block, or slot, and how many there are
  int angles, query_angles;  // offsets of the layer's angles, for keys and for queries; -1: its heads are not rotated
  int query_norm, key_norm;  // weights [HEAD_SIZE] of the norm of each head (rows.cl) before it is rotated; -1: none
  float epsilon;
} RopeArgs;
typedef struct {
  int query, out, list, positions, tables, partials, layer, unit, kv_heads;
  int window;  // with -D LOCAL_WINDOWS=1: of this layer
  int sinks;   // [HEADS] scores of tokens that are not there; -1: none
} AttentionArgs;
// out.floats: what is merged; -1: written to `in`. sinks: as attention's. gate: [T][H][D] f32, -1: none.
typedef struct { int in, list, partials, rows, layer; Rows out; int sinks, gate; } CombineArgs;
typedef struct { int logits, out, vocabulary, chunks, list; } StatisticsArgs;  // list: as of sample; -1: of all rows
typedef struct { int logits, statistics, vocabulary, chunks, list, results; } SampleArgs;
// The low-rank products of up to 3 matrices of a layer that read the same rows; meaning: lora.cl.
typedef struct {
  int layer, target, targets;  // the first of them, how many
  int in, depth;               // rows [T][depth] f32
  int shrunk, max_rows, rank_max;
  int tiles;      // in `step`
  int slot_size;  // of an adapter, in units of 64 bytes
  int out[3], outputs[3];
  int part_panels[3];  // panels of a target, rounded up to whole items
  int panels, parts;   // of an item of expand; items of a tile
} AdapterArgs;
typedef struct { int gate, up, up_stride, depth, rows; Rows out; } SwigluArgs;  // up_stride: from row to row
// Of experts; meaning: experts.cl.
typedef struct {
  int logits, experts, used, normed, bias, chosen, weights;
  float scale;
  int sigmoid, groups, groups_used;
  int scales;  // -1: none
} RouteArgs;
typedef struct { int chosen, rows, experts, counts, places, active; } SortArgs;  // rows: of all experts, T * used
typedef struct { Rows in, out; int depth, rows, used, places; } GatherArgs;     // rows: T
typedef struct {
  Weight weight[2];
  Rows in, out;
  int epilogue, out_stride, rows;
  int outputs;  // N of an expert
  int panels;   // of an item
  int active;
  int bias[2];  // [X][N], or -1
} ExpertsArgs;
// added_to -1: to nothing; shared -1: there is no gate.
typedef struct { int experts, weights, places, used, depth, out, added_to, shared, shared_gate, in; } MergeArgs;
// Of a layer with a state, all its operations; meaning: states.cl.
typedef struct {
  int mixed, convolution;
  int convolution_bias;  // -1: none
  int place;             // of the layer among those with a state
  int entries;
  int step, step_bias, decay;
  int correction, skip;  // of the kind that has it
  int gate, norm;
  float epsilon;
  int rows;
  Rows out;
} StateArgs;
// Of heads by themselves; meaning: heads.cl.
typedef struct { int in, size, first, depth, rows; Rows out; int rest, rest_stride; } DivideArgs;
typedef struct {
  Weight weight;  // N outputs of each head
  int bias[2];    // -1: there are none
  Rows in, out;   // writes out.floats alone
  int row_stride, head_stride, rows;
  int panels;  // of an item
} HeadsArgs;

// Of heads stored wider than they are; meaning: wide_heads.cl.
typedef struct { int in, heads, size, weight; float epsilon; int out, together, shared, places; } WidenArgs;
typedef struct { int in, size, shared, places, rows; Rows out; } NarrowArgs;

typedef struct {
  int op;
  int items;
  int counter;       // index of the counter that each finished item adds to
  int wait_counter;  // -1: begin at once
  int wait_count;
  int batch;         // items of a ticket of run_step, so that small ones do not cost more to draw than to do; 0: no tickets,
                     // each worker does them all, into its own copy, before its first item of the next stages of this counter
  union {
    EmbedArgs embed;
    NormArgs norm;
    LinearArgs linear;
    RopeArgs rope;
    AttentionArgs attention;
    CombineArgs combine;
    StatisticsArgs statistics;
    SampleArgs sample;  // of change, too
    AdapterArgs adapter;
    SwigluArgs swiglu;
    RouteArgs route;
    SortArgs sort;
    GatherArgs gather;
    ExpertsArgs experts;
    MergeArgs merge;
    StateArgs state;
    DivideArgs divide;
    HeadsArgs heads;
    WidenArgs widen;
    NarrowArgs narrow;
    int words[26];
  } args;
} Stage;  // 128 bytes

// Everything a step touches.
typedef struct {
  __global const uchar* weights0;
  __global const uchar* weights1;
  __global const uchar* weights2;
  __global const uchar* weights3;
  __global uchar* kv0;
  __global uchar* kv1;
  __global uchar* kv2;
  __global uchar* kv3;
  __global const float* vectors;  // norms and biases
  __global const float* angles;   // [position][pair] (cos, sin)
  __global float* act;            // activations
  __global int* step;             // the uploaded step: counters, stages, tables; results come back in it
  __global int* row_tokens;       // [max_num_seqs] last token sampled for each row; a spare one; the number of run_step's last
                                  // launch that is done
  __global const uchar* adapters; // slots of low-rank matrices (lora.cl)
  __global float* states;         // of sequences (states.cl)
  __global float* prepared;       // act, or this worker's own copy of the rows that norm and combine write for linear
} Memory;

#define MEMORY_PARAMETERS                                                                                          \
  __global const uchar *weights0, __global const uchar *weights1, __global const uchar *weights2,                 \
      __global const uchar *weights3, __global uchar *kv0, __global uchar *kv1, __global uchar *kv2,              \
      __global uchar *kv3, __global const float *vectors, __global const float *angles, __global float *act,      \
      __global int *step, __global int *row_tokens, __global const uchar *adapters, __global float *states
#define MEMORY_ARGUMENTS \
  { weights0, weights1, weights2, weights3, kv0, kv1, kv2, kv3, vectors, angles, act, step, row_tokens, adapters, states, act }

// Layout of `step`: word 0 stage count, word 1 offset of the stages, word 2 floats from one worker's copy of prepared rows to
// the next one's, words 3 to 6 for run_step: the launch's number, where in row_tokens the number of the last launch that is
// done stands, the counter and the items of the last stages; word 16 the ticket, then counters, one a cache line.
#define STEP_STAGE_COUNT 0
#define STEP_STAGES 1
#define STEP_COPY_STRIDE 2
#define STEP_NUMBER 3
#define STEP_DONE 4
#define STEP_LAST_COUNTER 5
#define STEP_LAST_COUNT 6
#define STEP_TICKET 16
#define STEP_COUNTERS 32
#define STEP_COUNTER_STRIDE 16

static __global const uchar* panel_address(const Memory* memory, int chunk, int offset, int panel, int panel_bytes)
{
  __global const uchar* base = chunk == 0   ? memory->weights0
                               : chunk == 1 ? memory->weights1
                               : chunk == 2 ? memory->weights2
                                            : memory->weights3;
  return base + (ulong)offset * 64 + (ulong)panel * panel_bytes;
}

static __global const uchar* weight_panel(const Memory* memory, __global const Weight* weight, int panel, int panel_bytes)
{
  return panel_address(memory, weight->chunk, weight->offset, panel, panel_bytes);
}

// Asks for the cache line at `from`; does not fault.
static void prefetch_line(__global const uchar* from)
{
#if INFLIGHT_X86_LINUX
  __asm__ volatile("prefetcht0 %0" : : "m"(*from));
#endif
}

// Rows as linear_tile() reads them (meaning: linear.cl).
typedef struct {
  __global const float* x;
  __global const char* q;
  __global const float* scale;
  __global const int* sum;
  int rows;  // T
} LinearInput;

// Whether weights of the type are blocks, which read rows quantised to int8.
static int takes_bytes(int type) { return type != TYPE_F32 && type != TYPE_F16 && type != TYPE_BF16; }
// Whether a block begins with two halves for each output: scale and minimum, or the scales of 16 numbers each.
static int has_two_halves(int type) { return type == TYPE_Q4_1 || type == TYPE_Q5_1 || type == TYPE_Q6_K; }
// Bytes of a block before its numbers.
static int head_bytes(int type) { return has_two_halves(type) ? 64 : type == TYPE_MXFP4 ? 16 : 32; }
// A block's scales, or the first halves of them; MXFP4's are powers of two.
static float16 scales_16(int type, __global const uchar* block)
{
  if (type == TYPE_MXFP4) return as_float16(convert_int16(vload16(0, block)) << 23);
  return vload_half16(0, (__global const half*)block);
}

// Numbers that nibbles stand for, as bytes: those of 0 to 3, 4 to 7, 8 to 11, 12 to 15.
#define MX_NUMBERS (int4)(0x03020100, 0x0C080604, (int)0xFDFEFF00, (int)0xF4F8FAFC)
#define NL_NUMBERS (int4)((int)0xBFAD9881, (int)0xF6EADDCF, 0x26190D01, 0x71594535)

// Of the nibbles in the bytes of w: each bit of theirs halves what is left of the table.
#define FOUR_TIMES(byte) (int)(((uint)(byte) & 0xFF) * 0x01010101)
#define ALL_BITS(ones) (((ones) << 8) - (ones)) /* of each byte that is 1 */
#define DEFINE_OF_TABLE(WORDS, N)                                                                                  \
  static WORDS of_four_##N(WORDS odd, WORDS two, int numbers)                                                      \
  {                                                                                                                \
    const int a = FOUR_TIMES(numbers), b = FOUR_TIMES(numbers >> 8);                                               \
    const int c = FOUR_TIMES(numbers >> 16), d = FOUR_TIMES(numbers >> 24);                                        \
    const WORDS low = a ^ (odd & (a ^ b)), high = c ^ (odd & (c ^ d));                                             \
    return low ^ (two & (low ^ high));                                                                             \
  }                                                                                                                \
  static WORDS of_table_##N(WORDS w, int4 numbers)                                                                 \
  {                                                                                                                \
    const WORDS odd = ALL_BITS(w & 0x01010101), two = ALL_BITS(w >> 1 & 0x01010101);                               \
    const WORDS four = ALL_BITS(w >> 2 & 0x01010101), eight = ALL_BITS(w >> 3 & 0x01010101);                       \
    const WORDS of_0 = of_four_##N(odd, two, numbers.x), of_4 = of_four_##N(odd, two, numbers.y);                  \
    const WORDS of_8 = of_four_##N(odd, two, numbers.z), of_12 = of_four_##N(odd, two, numbers.w);                 \
    const WORDS below = of_0 ^ (four & (of_0 ^ of_4)), above = of_8 ^ (four & (of_8 ^ of_12));                     \
    return below ^ (eight & (below ^ above));                                                                      \
  }
DEFINE_OF_TABLE(int, 1)
DEFINE_OF_TABLE(int2, 2)
DEFINE_OF_TABLE(int16, 16)

// The numbers at the depths 4 * k4 to 4 * k4 + 3 of a block of 4, 5 or 6 bits, each a signed byte; words: the block behind its
// halves (layouts: linear.cl), for four_numbers_1() and _2() from an output's first word on.
#define DEFINE_FOUR_NUMBERS(N, WORDS, LOAD)                                                                        \
  static WORDS four_numbers_##N(int type, __global const int* words, int k4)                                       \
  {                                                                                                                \
    const WORDS nibbles = LOAD((type == TYPE_Q6_K ? 2 : type == TYPE_Q5_1 ? 1 : 0) + (k4 & 3), words);             \
    WORDS w = (k4 < 4 ? nibbles : nibbles >> 4) & 0x0F0F0F0F;                                                      \
    if (type == TYPE_Q5_1) w |= (LOAD(0, words) >> k4 & 0x01010101) << 4;                                          \
    if (type == TYPE_Q6_K) w |= (LOAD(k4 / 4, words) >> (2 * (k4 & 3)) & 0x03030303) << 4;                         \
    if (type == TYPE_MXFP4) return of_table_##N(w, MX_NUMBERS);                                                    \
    if (type == TYPE_IQ4_NL) return of_table_##N(w, NL_NUMBERS);                                                   \
    const int bias = type == TYPE_Q6_K ? 0x20202020 : type == TYPE_Q4_0 ? 0x08080808 : 0;                          \
    return ((w | (int)0x80808080) - bias) ^ (int)0x80808080;                                                       \
  }
#define LOAD_1(i, words) (words)[16 * (i)]
#define LOAD_2(i, words) *(__global const int2*)((words) + 16 * (i)) /* of an even output */
DEFINE_FOUR_NUMBERS(1, int, LOAD_1)
DEFINE_FOUR_NUMBERS(2, int2, LOAD_2)
DEFINE_FOUR_NUMBERS(16, int16, vload16)

// Number k of output `lane` within a panel of plain numbers (layouts: linear.cl).
static float panel_number(int type, __global const uchar* panel, int lane, int k)
{
  if (type == TYPE_F32) return ((__global const float*)panel)[k * 16 + lane];
  if (type == TYPE_F16) return vload_half(k * 16 + lane, (__global const half*)panel);
  return as_float((uint)((__global const ushort*)panel)[k * 16 + lane] << 16);
}

// Bytes of a panel of 16 outputs (layouts: linear.cl).
static int panel_bytes(int type, int depth)
{
  switch (type) {
    case TYPE_F32: return depth * 64;
    case TYPE_Q8_0: return depth / 32 * 544;
    case TYPE_Q4_0:
    case TYPE_IQ4_NL: return depth / 32 * 288;
    case TYPE_Q4_1: return depth / 32 * 320;
    case TYPE_Q5_1: return depth / 32 * 384;
    case TYPE_Q6_K: return depth / 32 * 448;
    case TYPE_MXFP4: return depth / 32 * 272;
    default: return depth * 32;
  }
}
