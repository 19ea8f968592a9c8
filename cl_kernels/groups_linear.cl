// SPDX-License-Identifier: Apache-2.0
// groups_linear.cl: linear layers by work-groups; the bits of linear.cl's contract, the epilogues of linear_item.cl.
//   A work-group computes a tile of one or two pairs of panels (two: of gate and up for SWIGLU, else side by side) and up to 64
//   rows. Integer products of a block are shared by the threads of a warp (groups_dots.cl).
//   one_row: each warp takes other blocks of depth and leaves (integer, scale) in local memory, then one thread an output adds.
//   few_bytes: likewise of up to 8 or 32 rows, integers alone. So all of a work-group reads a panel at once.
//   many_bytes: each warp has a pair of panels and 16 rows, and walks through the whole depth.
//   few_floats, many_floats: likewise of floats; a sum is one chain along the depth in any case.
// Bound: memory for few rows; for many the vector instructions that follow each integer.
// Test: tests/kernel/linear_test.cpp.

#define FEW_ROWS 32        // of linear_few
#define FEW_FLOAT_ROWS 8   // of linear_few_floats
#define WARPS (WORK_GROUP / WARP)
#define DOT_SLOTS 32     // of 16 outputs x 8 rows
#define DOT_STRIDE 20    // from a row's 16 integers to the next one's
#define FEW_WORDS (DOT_SLOTS * (8 * DOT_STRIDE + 32 + 16))  // of local memory
#define ONE_ROW_BLOCKS (FEW_WORDS / 32)
#define CHUNK_FLOATS 2048

// Blocks that a warp asks for before it needs the first, for up to 8 rows.
#if MMA_INT8
#define AHEAD 4
#else  // a thread needs more registers for a block
#define AHEAD 1
#endif

// The sums of one or two panels (b null: one) for all rows, up to 8 * TILES, into `out`, TILE_STRIDE from row to row.
// local: integers [slot][8 rows][DOT_STRIDE]; then of each panel and block 16 scales and 16 second halves; then of each block
// and row its scale and its sum times that.
#define DEFINE_FEW_BYTES(NAME, TYPE, TILES, AHEAD_)                                                                    \
  static void NAME(int any_type, __global const uchar* a, __global const uchar* b, const LinearInput* in, int depth,   \
                   __local int* dot_at, __local float* out)                                                            \
  {                                                                                                                    \
    const int type = TYPE < 0 ? any_type : TYPE, lane = THREAD % WARP, warp = THREAD / WARP, blocks = depth / 32;      \
    const int rows = in->rows;                                                                                         \
    const int halves = type == TYPE_Q6_K ? 2 : 1, more = b ? 1 : 0, each = DOT_SLOTS / (TILES * halves) >> more;       \
    const int bytes = panel_bytes(type, 32), two = has_two_halves(type), minima = two && halves == 1;                  \
    __local float* d_at = (__local float*)(dot_at + DOT_SLOTS * 8 * DOT_STRIDE);                                       \
    __local float* scale_at = d_at + DOT_SLOTS * 32;                                                                   \
    float acc[TILES];                                                                                                  \
    _Pragma("unroll") for (int j = 0; j < TILES; j++) acc[j] = 0.0f;                                                   \
    for (int base = 0; base < blocks; base += each) {                                                                  \
      const int here = min(each, blocks - base), items = here << more;                                                 \
      TOGETHER();                                                                                                      \
      for (int i0 = warp; i0 < items; i0 += WARPS * AHEAD_) {                                                          \
        WeightPart w[AHEAD_];                                                                                          \
        RowPart x[AHEAD_][TILES];                                                                                      \
        float2 d[AHEAD_], e[AHEAD_];                                                                                   \
        _Pragma("unroll") for (int n = 0; n < AHEAD_; n++) {                                                           \
          const int i = min(i0 + WARPS * n, items - 1), at = base + (i >> more);                                       \
          __global const uchar* block = (i & more ? b : a) + (ulong)at * bytes;                                        \
          load_weights(type, block, lane, &w[n]);                                                                      \
          d[n] = load_scales(type, block, 0, lane);                                                                    \
          if (two) e[n] = load_scales(type, block, 1, lane);                                                           \
          _Pragma("unroll") for (int t = 0; t < TILES; t++) {                                                          \
            load_rows(in->q + ((size_t)at * in->rows + 8 * t) * 32, rows - 8 * t, lane, &x[n][t]);                     \
          }                                                                                                            \
        }                                                                                                              \
        _Pragma("unroll") for (int n = 0; n < AHEAD_; n++) {                                                           \
          const int i = i0 + WARPS * n, place = (i & more) * each + (i >> more);                                       \
          if (i >= items) continue;                                                                                    \
          if (lane % 4 == 0) {                                                                                         \
            *(__local float2*)(d_at + place * 32 + lane / 2) = d[n];                                                   \
            if (two) *(__local float2*)(d_at + place * 32 + 16 + lane / 2) = e[n];                                     \
          }                                                                                                            \
          _Pragma("unroll") for (int t = 0; t < TILES; t++) {                                                          \
            for (int h = 0; h < halves; h++) {                                                                         \
              const int4 c = dots(&w[n], &x[n][t], halves == 2 ? h : ALL_DEPTHS, lane);                                \
              const int slot = (place * halves + h) * TILES + t;                                                       \
              __local int* to = dot_at + (slot * 8 + lane % 4 * 2) * DOT_STRIDE + lane / 4 * 2;                        \
              *(__local int2*)to = (int2)(c.x, c.z);                                                                   \
              *(__local int2*)(to + DOT_STRIDE) = (int2)(c.y, c.w);                                                    \
            }                                                                                                          \
          }                                                                                                            \
        }                                                                                                              \
      }                                                                                                                \
      EACH_THREAD(i, here * 8 * TILES) {                                                                               \
        const int row = i % (8 * TILES);                                                                               \
        const size_t at = (size_t)(base + i / (8 * TILES)) * in->rows + row;                                           \
        if (row >= rows) continue;                                                                                     \
        scale_at[2 * i] = in->scale[at];                                                                               \
        if (minima) scale_at[2 * i + 1] = (float)in->sum[at * 2 + 1] * in->scale[at];                                  \
      }                                                                                                                \
      TOGETHER();                                                                                                      \
      _Pragma("unroll") for (int j = 0; j < TILES; j++) {                                                              \
        const int chain = THREAD + WORK_GROUP * j, n = chain % 16, row = chain / 16 % (8 * TILES);                     \
        const int p = chain / (16 * 8 * TILES);                                                                        \
        if (p > more || row >= rows) continue;                                                                         \
        _Pragma("unroll 8") for (int i = 0; i < here; i++) {                                                           \
          __local const float* d = d_at + (p * each + i) * 32 + n;                                                     \
          __local const float* scale = scale_at + 2 * (i * 8 * TILES + row);                                           \
          for (int h = 0; h < halves; h++) {                                                                           \
            const int slot = ((p * each + i) * halves + h) * TILES + row / 8;                                          \
            const int dot = dot_at[(slot * 8 + row % 8) * DOT_STRIDE + n];                                             \
            acc[j] = fma((float)dot, d[16 * h] * scale[0], acc[j]);                                                    \
          }                                                                                                            \
          if (minima) acc[j] = fma(d[16] * -0.125f, scale[1], acc[j]);                                                 \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
    _Pragma("unroll") for (int j = 0; j < TILES; j++) {                                                                \
      const int chain = THREAD + WORK_GROUP * j, p = chain / (16 * 8 * TILES);                                         \
      if (p <= more) out[chain / 16 % (8 * TILES) * TILE_STRIDE + p * 16 + chain % 16] = acc[j];                       \
    }                                                                                                                  \
  }
DEFINE_FEW_BYTES(few_bytes_8_of_q8, TYPE_Q8_0, 1, AHEAD)
DEFINE_FEW_BYTES(few_bytes_32_of_q8, TYPE_Q8_0, 4, 1)
DEFINE_FEW_BYTES(few_bytes_8, -1, 1, 1)
DEFINE_FEW_BYTES(few_bytes_32, -1, 4, 1)

// One row: what each block adds, (integer, scale) of [block][16 outputs], for as much of the depth as fits into `of`.
#define DEFINE_ONE_ROW(NAME, TYPE)                                                                                     \
  static void NAME(__global const uchar* a, __global const uchar* b, const LinearInput* in, int depth,                 \
                   __local float2* of, __local float* out)                                                             \
  {                                                                                                                    \
    const int lane = THREAD % WARP, warp = THREAD / WARP, more = b ? 1 : 0, blocks = depth / 32;                       \
    const int each = ONE_ROW_BLOCKS >> more, bytes = panel_bytes(TYPE, 32);                                            \
    float acc = 0.0f;                                                                                                  \
    for (int base = 0; base < blocks; base += each) {                                                                  \
      const int here = min(each, blocks - base), items = here << more;                                                 \
      TOGETHER();                                                                                                      \
      for (int i0 = warp; i0 < items; i0 += WARPS * AHEAD) {                                                           \
        WeightPart w[AHEAD];                                                                                           \
        RowPart x[AHEAD];                                                                                              \
        float2 d[AHEAD];                                                                                               \
        float scale[AHEAD];                                                                                            \
        _Pragma("unroll") for (int n = 0; n < AHEAD; n++) {                                                            \
          const int i = min(i0 + WARPS * n, items - 1), at = base + (i >> more);                                       \
          __global const uchar* block = (i & more ? b : a) + (ulong)at * bytes;                                        \
          const size_t row = (size_t)at * in->rows;                                                                    \
          load_weights(TYPE, block, lane, &w[n]);                                                                      \
          d[n] = load_scales(TYPE, block, 0, lane);                                                                    \
          load_rows(in->q + row * 32, 1, lane, &x[n]);                                                                 \
          scale[n] = in->scale[row];                                                                                   \
        }                                                                                                              \
        _Pragma("unroll") for (int n = 0; n < AHEAD; n++) {                                                            \
          const int i = i0 + WARPS * n;                                                                                \
          if (i >= items) continue;                                                                                    \
          const int4 c = dots(&w[n], &x[n], ALL_DEPTHS, lane);                                                         \
          const float4 both = (float4)((float)c.x, d[n].x * scale[n], (float)c.z, d[n].y * scale[n]);                  \
          const int place = (i & more) * each + (i >> more);                                                           \
          if (lane % 4 == 0) *(__local float4*)(of + place * 16 + lane / 2) = both;                                    \
        }                                                                                                              \
      }                                                                                                                \
      TOGETHER();                                                                                                      \
      if (THREAD >= 16 << more) continue;                                                                              \
      __local const float2* from = of + THREAD / 16 * each * 16 + THREAD % 16;                                         \
      _Pragma("unroll 8") for (int i = 0; i < here; i++) acc = fma(from[16 * i].x, from[16 * i].y, acc);               \
    }                                                                                                                  \
    if (THREAD < 16 << more) out[THREAD] = acc;                                                                        \
  }
DEFINE_ONE_ROW(one_row_of_q8, TYPE_Q8_0)
DEFINE_ONE_ROW(one_row_of_q4, TYPE_Q4_0)

// Up to FEW_FLOAT_ROWS rows. local: weights [panel][depths of a chunk][16], the next chunk waits in registers.
static void few_floats(int type, __global const uchar* a, __global const uchar* b, const LinearInput* in, int depth,
                       __local float* w, __local float* out)
{
  const int rows = in->rows;
  const int count = b ? 2 : 1, chunk = CHUNK_FLOATS / 16 / count;
  const int n = THREAD % 16, row = THREAD / 16 % 8, p = THREAD / 128;
  __global const float* x = in->x + (size_t)min(row, rows - 1) * depth;
  float next[CHUNK_FLOATS / WORK_GROUP], acc = 0.0f;
  for (int base = -chunk; base < depth; base += chunk) {
    TOGETHER();
    if (base >= 0) {
#pragma unroll
      for (int j = 0; j < CHUNK_FLOATS / WORK_GROUP; j++) w[THREAD + WORK_GROUP * j] = next[j];
    }
    TOGETHER();
#pragma unroll
    for (int j = 0; j < CHUNK_FLOATS / WORK_GROUP; j++) {
      const int i = THREAD + WORK_GROUP * j, k = base + chunk + i / 16 % chunk;
      next[j] = k < depth ? panel_number(type, i / 16 / chunk ? b : a, i % 16, k) : 0.0f;
    }
    if (base < 0 || p >= count || row >= rows) continue;
    const int here = min(chunk, depth - base);
#pragma unroll 16
    for (int k = 0; k < here; k++) acc = fma(w[(p * chunk + k) * 16 + n], x[base + k], acc);
  }
  if (p < count) out[row * TILE_STRIDE + p * 16 + n] = acc;
}

// What a warp needs of a block: a pair of panels, 16 rows.
typedef struct {
  WeightPart w[2];
  float2 d[2], e[2];  // of the panels: scales; second halves, where there are any
  RowPart x[2];
  float2 scale[2];  // of the thread's two rows of each 8
} BlockPart;

static void load_block(int type, __global const uchar* a, __global const uchar* b, const LinearInput* in, size_t row, int rows,
                       int lane, BlockPart* to)
{
#pragma unroll
  for (int p = 0; p < 2; p++) {
    load_weights(type, p ? b : a, lane, &to->w[p]);
    to->d[p] = load_scales(type, p ? b : a, 0, lane);
    if (has_two_halves(type)) to->e[p] = load_scales(type, p ? b : a, 1, lane);
  }
#pragma unroll
  for (int t = 0; t < 2; t++) {
    const int first = lane % 4 * 2, left = rows - 8 * t;
    load_rows(in->q + (row + 8 * t) * 32, left, lane, &to->x[t]);
    to->scale[t].x = first < left ? in->scale[row + 8 * t + first] : 0.0f;
    to->scale[t].y = first + 1 < left ? in->scale[row + 8 * t + first + 1] : 0.0f;
  }
}

// acc: of the panels and 8 rows each, like dots().
static void add_block(int type, const BlockPart* from, const LinearInput* in, size_t row, int rows, int lane, float4 (*acc)[2])
{
  const int halves = type == TYPE_Q6_K ? 2 : 1;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int p = i / 2, t = i % 2;
    const float4 scale = from->scale[t].xyxy;
    for (int h = 0; h < halves; h++) {
      const int4 c = dots(&from->w[p], &from->x[t], halves == 2 ? h : ALL_DEPTHS, lane);
      acc[p][t] = fma(convert_float4(c), (h ? from->e[p] : from->d[p]).xxyy * scale, acc[p][t]);
    }
    if (has_two_halves(type) && halves == 1) {
      const int first = lane % 4 * 2, left = rows - 8 * t;
      const size_t at = row + 8 * t + first;
      const float x = first < left ? (float)in->sum[at * 2 + 1] : 0.0f, y = first + 1 < left ? (float)in->sum[at * 2 + 3] : 0.0f;
      acc[p][t] = fma(from->e[p].xxyy * -0.125f, (float4)(x, y, x, y) * scale, acc[p][t]);
    }
  }
}

// A warp's pair of panels (b null: one) and up to 16 rows. (With two blocks in registers before they are needed it took 1.7 times
// as long on an H100: fewer warps fit.)
static void many_bytes(int type, __global const uchar* a, __global const uchar* b, const LinearInput* in, int row0, int rows,
                       int depth, __local float* out)
{
  const int lane = THREAD % WARP, bytes = panel_bytes(type, 32);
  if (!b) b = a;
  float4 acc[2][2];
#pragma unroll
  for (int i = 0; i < 4; i++) acc[i / 2][i % 2] = 0.0f;
#pragma unroll 2
  for (int at = 0; at < depth / 32; at++) {
    const size_t row = (size_t)at * in->rows + row0;
    BlockPart block;
    load_block(type, a + (ulong)at * bytes, b + (ulong)at * bytes, in, row, rows, lane, &block);
    add_block(type, &block, in, row, rows, lane, acc);
  }
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float4 v = acc[i / 2][i % 2];
    __local float* to = out + (8 * (i % 2) + lane % 4 * 2) * TILE_STRIDE + 16 * (i / 2) + lane / 4 * 2;
    *(__local float2*)to = v.xz;
    *(__local float2*)(to + TILE_STRIDE) = v.yw;
  }
}

static void many_floats(int type, __global const uchar* a, __global const uchar* b, const LinearInput* in, int row0, int rows,
                        int depth, __local float* out)
{
  const int lane = THREAD % WARP, n = lane % 16, first = lane / 16 * 8;
  __global const float* x = in->x + (size_t)row0 * depth;
  float acc[2][8];
  int row[8];  // rows that are not there are the last one
#pragma unroll
  for (int r = 0; r < 8; r++) {
    acc[0][r] = acc[1][r] = 0.0f;
    row[r] = min(first + r, rows - 1) * depth;
  }
#pragma unroll 4
  for (int k = 0; k < depth; k++) {
    const float low = panel_number(type, a, n, k), high = panel_number(type, b ? b : a, n, k);
#pragma unroll
    for (int r = 0; r < 8; r++) {
      const float v = x[row[r] + k];
      acc[0][r] = fma(low, v, acc[0][r]);
      acc[1][r] = fma(high, v, acc[1][r]);
    }
  }
#pragma unroll
  for (int r = 0; r < 8; r++) {
    out[(first + r) * TILE_STRIDE + n] = acc[0][r];
    out[(first + r) * TILE_STRIDE + 16 + n] = acc[1][r];
  }
}

// One or two panels times up to FEW_ROWS rows into columns 0 to 31 of `out`; of floats up to FEW_FLOAT_ROWS, by few_floats().
// local: FEW_WORDS.
static void few_bytes(int type, __global const uchar* a, __global const uchar* b, const LinearInput* in, int depth,
                      __local int* local_words, __local float* out)
{
  const int rows = in->rows;
  if (rows == 1 && type == TYPE_Q8_0) {
    one_row_of_q8(a, b, in, depth, (__local float2*)local_words, out);
  } else if (rows == 1 && type == TYPE_Q4_0) {
    one_row_of_q4(a, b, in, depth, (__local float2*)local_words, out);
  } else if (type == TYPE_Q8_0) {
    if (rows <= 8) {
      few_bytes_8_of_q8(type, a, b, in, depth, local_words, out);
    } else {
      few_bytes_32_of_q8(type, a, b, in, depth, local_words, out);
    }
  } else if (rows <= 8) {
    few_bytes_8(type, a, b, in, depth, local_words, out);
  } else {
    few_bytes_32(type, a, b, in, depth, local_words, out);
  }
}

// Up to two pairs of panels times up to TILE_ROWS rows into a tile.
static void many_rows(const int* type, __global const uchar* const* panel, const LinearInput* in, int row0, int rows, int depth,
                      __local float* tile)
{
  const int warp = THREAD / WARP, pair = warp / 4, first = warp % 4 * 16;
  __global const uchar *a = panel[2 * pair], *b = panel[2 * pair + 1];
  if (!a || first >= rows) return;
  __local float* out = tile + first * TILE_STRIDE + 32 * pair;
  if (!takes_bytes(type[pair])) {
    many_floats(type[pair], a, b, in, row0 + first, rows - first, depth, out);
  } else if (type[pair] == TYPE_Q8_0) {
    many_bytes(TYPE_Q8_0, a, b, in, row0 + first, rows - first, depth, out);
  } else {
    many_bytes(type[pair], a, b, in, row0 + first, rows - first, depth, out);
  }
}

// Panel `panel` of a weight, null behind its last.
static __global const uchar* panel_or_none(const Memory* memory, const Weight* weight, int panel)
{
  if (panel * 16 >= weight->outputs) return 0;
  return panel_address(memory, weight->chunk, weight->offset, panel, panel_bytes(weight->type, weight->depth));
}

#define INPUT_OF(from, args)                                                                                           \
  {(from) + (args)->in.floats, (__global const char*)((from) + (args)->in.bytes), (from) + (args)->in.scales,          \
   (__global const int*)((from) + (args)->in.sums), (args)->rows}

static float bias_at(const Memory* memory, int offset, int column)
{
  return offset < 0 ? 0.0f : memory->vectors[offset + column];
}

// What follows the sums of `columns` columns from panel `panel` on.
static void end_tile(const Memory* memory, const LinearArgs* args, int panel, int columns, int row0, int rows,
                     __local float* tile)
{
  const int outputs = args->weight[0].outputs, column0 = panel * 16;
  TOGETHER();
  if (args->epilogue != EPILOGUE_SWIGLU && !ACTIVATES(args)) {
    EACH_THREAD(i, rows * columns) {
      const int r = i / columns, c = i % columns, column = column0 + c;
      if (column >= outputs) continue;
      __global float* out = memory->act + args->out.floats + (size_t)(row0 + r) * args->out_stride + column;
      const float sum = tile[r * TILE_STRIDE + c] + bias_at(memory, args->bias[0], column);
#ifdef LOGIT_SOFTCAP
      if (args->epilogue == EPILOGUE_LOGITS) {
        *out = soft_capped_1(sum, LOGIT_SOFTCAP);
        continue;
      }
#endif
      *out = args->epilogue == EPILOGUE_ADD ? *out + sum : sum;
    }
    return;
  }
  EACH_THREAD(i, rows * 32) {
    const int r = i / 32, c = i % 32, column = column0 + c;
    float h = 0.0f;
    if (column < outputs) {
      const float g = tile[r * TILE_STRIDE + c] + bias_at(memory, args->bias[0], column);
      const float u = ACTIVATES(args) ? 1.0f : tile[r * TILE_STRIDE + 32 + c] + bias_at(memory, args->bias[1], column);
      h = gated_1(g, u);
      if (args->out.floats >= 0) memory->act[args->out.floats + (size_t)(row0 + r) * outputs + column] = h;
    }
    tile[r * TILE_STRIDE + c] = h;
  }
  if (args->out.bytes < 0) return;
  write_tile_bytes(memory->act, &args->out, (size_t)(column0 / 32) * args->rows + row0, 1, rows, tile);
}

// All rows, of which there are few; item = a panel, for SWIGLU and ACTIVATE a pair of each matrix. SUMS: few_bytes, few_floats.
#define DEFINE_LINEAR_FEW(NAME, SUMS, LOCAL_TYPE)                                                                     \
  static void NAME(const Memory* memory, const LinearArgs* args, int item, __local LOCAL_TYPE* words, __local float* tile) \
  {                                                                                                                   \
    const LinearInput in = INPUT_OF(memory->prepared, args);                                                          \
    const Weight* weight = args->weight;                                                                              \
    const int rows = args->rows, depth = weight->depth, swiglu = args->epilogue == EPILOGUE_SWIGLU;                   \
    const int pairs = swiglu || ACTIVATES(args), panel = pairs ? 2 * item : item;                                     \
    for (int i = 0; i <= swiglu; i++) {                                                                               \
      __global const uchar* a = panel_or_none(memory, weight + i, panel);                                             \
      __global const uchar* b = pairs ? panel_or_none(memory, weight + i, panel + 1) : 0;                             \
      SUMS(weight[i].type, a, b, &in, depth, words, tile + 32 * i);                                                   \
    }                                                                                                                 \
    end_tile(memory, args, panel, pairs ? 32 : 16, 0, rows, tile);                                                    \
  }
DEFINE_LINEAR_FEW(linear_few, few_bytes, int)
DEFINE_LINEAR_FEW(linear_few_floats, few_floats, float)

// Item = four panels, for SWIGLU and ACTIVATE a pair of each matrix, and TILE_ROWS rows; neighbouring items have the same
// panels.
static void linear_many(const Memory* memory, const LinearArgs* args, int item, __local float* tile)
{
  const LinearInput in = INPUT_OF(memory->prepared, args);
  const Weight* weight = args->weight;
  const int swiglu = args->epilogue == EPILOGUE_SWIGLU, tiles = (args->rows + TILE_ROWS - 1) / TILE_ROWS;
  const int pairs = swiglu || ACTIVATES(args);
  const int panel = item / tiles * (pairs ? 2 : 4), row0 = item % tiles * TILE_ROWS, rows = min(TILE_ROWS, args->rows - row0);
  const int type[2] = {weight[0].type, weight[swiglu].type};
  __global const uchar* panels[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int none = ACTIVATES(args) && i >= 2;
    panels[i] = none ? 0 : panel_or_none(memory, weight + (swiglu ? i / 2 : 0), panel + (swiglu ? i % 2 : i));
  }
  many_rows(type, panels, &in, row0, rows, weight->depth, tile);
  end_tile(memory, args, panel, pairs ? 32 : 64, row0, rows, tile);
}
