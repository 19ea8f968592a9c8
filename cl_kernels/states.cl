// SPDX-License-Identifier: Apache-2.0
// states.cl: layers with a state in the place of attention, of one kind in a program.
//   convolve: u[t, c] = bias[c] + sum_j convolution[c][j] * x[t - W + 1 + j, c], 0 <= j < W, 0 <= c < MIXED; of tokens before
//          the sequence's first x is 0
//   Short convolution: of rows (b | c | y), MIXED numbers each, x = b * y, and c * u are the rows of the next layer; that is all.
//   The others: x are rows of MIXED numbers, in whose place silu(u) comes: queries q and keys k of KEY_HEADS heads, KEY_SIZE
//   numbers each, and values v of VALUE_HEADS, VALUE_SIZE each. A value head keeps a matrix S, which every token decays, changes
//   where its key points, and reads where its query points. s = log(1 + exp(step[t, h] + step_bias[h])), a = exp(decay[h] * s).
//   Value head h goes with key head h % KEY_HEADS, with -D GROUPED_HEADS=1 with h / (VALUE_HEADS / KEY_HEADS).
//   Gated delta net, rows (q | k | v):
//     update: q and k of length 1 (x / sqrt(sum x^2 + epsilon)), b = 1 / (1 + exp(-correction[t, h]))
//             S = a S,  d = b (v - S^T k),  S = S + k d^T,  o = S^T q / sqrt(KEY_SIZE)
//     read:   y[t, h, :] = o / sqrt(mean o^2 + epsilon) * norm * silu(gate[t, h, :])
//   Mamba 2, rows (v | k | q):
//     update: S = a S + s k v^T,  o = (S^T q + skip[h] v) * silu(gate[t, h, :])
//     read:   y[t, :] = o / sqrt(mean o^2 + epsilon) * norm, the mean of all heads that go with one key head; without a norm o
//   o takes the place of v; y are the rows of the next layer.
//   Tokens come one after the other, so a token's numbers do not depend on how its sequence is cut into steps.
//   Entries, STATE_ENTRY_WORDS ints each, one a sequence of the step: its first row, its rows, the slot whose state it begins
//   with or -1 (all 0), the slot that it leaves its state in, 1 + the offset in `step` of the places in which its states on the
//   way are kept (count, then of each: after how many of its rows, slot), or 0.
//   A slot of `states`: of each layer the last W - 1 rows x [W - 1][MIXED], then S of each head as VALUE_SIZE / 16 blocks
//   [KEY_SIZE][16] of its columns: v's numbers, along which all is independent.
//   Mapping: convolve: item = (entry, 32 channels); update: item = (entry, value head, block of columns), which stays in the
//   first-level cache; read: item = (row, NORMED numbers).
//   -D STATE_KIND (stage.cl), KEY_HEADS (0: no matrices), VALUE_HEADS, KEY_SIZE (a multiple of 32, as NORMED), VALUE_SIZE (of
//   16), CONVOLVE_WINDOW (W), STATE_LAYERS.
//   Accumulation: float; along KEY_SIZE four sums, of every fourth number each. Tolerance 1e-4.
//   Test: tests/unit/exec/reference_test.cpp.
// Sources: Yang, Kautz and Hatamizadeh 2024 (gated delta networks), Dao and Gu 2024 (Mamba 2).

#define STATE_ENTRY_WORDS 5
#define STATE_COLUMNS 16
#define CONVOLVE_CHANNELS 32
#define CONVOLVE_VECTORS (CONVOLVE_CHANNELS / 16)
#define VALUES (VALUE_HEADS * VALUE_SIZE)
#define MIXED (2 * KEY_HEADS * KEY_SIZE + VALUES)
#define KEPT_ROWS (CONVOLVE_WINDOW - 1)
#define STATE_BLOCK (KEY_SIZE * STATE_COLUMNS)
#define STATE_BLOCKS (VALUE_SIZE / STATE_COLUMNS)
#define LAYER_STATE (KEPT_ROWS * MIXED + VALUES * KEY_SIZE)
#if STATE_KIND == STATE_SHORT_CONVOLUTION
#define CONVOLVED_ROW (3 * MIXED)
#else
#define CONVOLVED_ROW MIXED
#endif
#if STATE_KIND == STATE_MAMBA_2
#define VALUES_AT 0
#define KEYS_AT VALUES
#define QUERIES_AT (VALUES + KEY_HEADS * KEY_SIZE)
#define NORMED (VALUES / KEY_HEADS)
#else
#define QUERIES_AT 0
#define KEYS_AT (KEY_HEADS * KEY_SIZE)
#define VALUES_AT (2 * KEY_HEADS * KEY_SIZE)
#define NORMED VALUE_SIZE
#endif
#if GROUPED_HEADS
#define KEY_HEAD(head) ((head) / (VALUE_HEADS / KEY_HEADS))
#else
#define KEY_HEAD(head) ((head) % KEY_HEADS)
#endif

typedef struct {
  int first_row, rows, from, to;
  __global const int* kept;  // pairs of rows and slot
  int kept_count;
} StateEntry;
static StateEntry state_entry(const Memory* memory, __global const StateArgs* args, int entry)
{
  __global const int* words = memory->step + args->entries + entry * STATE_ENTRY_WORDS;
  StateEntry result = {words[0], words[1], words[2], words[3], 0, 0};
  if (words[4] > 0) {
    result.kept = memory->step + words[4];
    result.kept_count = result.kept[-1];
  }
  return result;
}

// Where a layer's state lies in a slot.
static __global float* state_of(const Memory* memory, int place, int slot)
{
  return memory->states + ((ulong)slot * STATE_LAYERS + place) * LAYER_STATE;
}

// The rows before row `end` of an entry become those that a slot keeps; x: the last of them, the newest first.
static void keep_rows(__global float* kept, float16 (*x)[CONVOLVE_VECTORS])
{
  EACH(j, KEPT_ROWS) {
    EACH(i, CONVOLVE_VECTORS) STORE_16(x[j][i], kept + (KEPT_ROWS - 1 - j) * MIXED + 16 * i);
  }
}

// 16 numbers x of a row; channel: the first one.
static float16 convolved(__global const float* row, int channel)
{
#if STATE_KIND == STATE_SHORT_CONVOLUTION
  return vload16(0, row + channel) * vload16(0, row + 2 * MIXED + channel);
#else
  return vload16(0, row + channel);
#endif
}

// What comes of the sums u of 32 channels of a row: t of the step.
static void write_sums(const Memory* memory, __global const StateArgs* args, int t, int channel, const float16* u)
{
  __global float* row = memory->act + args->mixed + (size_t)t * CONVOLVED_ROW + channel;
#if STATE_KIND == STATE_SHORT_CONVOLUTION
  __global const float* c = row + MIXED;
  write_block(memory->act, &args->out, args->rows, t, channel, MIXED, vload16(0, c) * u[0], vload16(1, c) * u[1]);
#else
  EACH(i, CONVOLVE_VECTORS) STORE_16(u[i] * sigmoid_16(u[i]), row + 16 * i);
#endif
}

static void convolve_item(const Memory* memory, __global const StateArgs* args, int item)
{
  const int groups = MIXED / CONVOLVE_CHANNELS, channel = item % groups * CONVOLVE_CHANNELS;
  const StateEntry entry = state_entry(memory, args, item / groups);
  float16 factors[CONVOLVE_WINDOW][CONVOLVE_VECTORS], x[CONVOLVE_WINDOW][CONVOLVE_VECTORS];  // x[j]: of j tokens before
  float16 bias[CONVOLVE_VECTORS];
  EACH(i, CONVOLVE_VECTORS) {
    bias[i] = args->convolution_bias < 0 ? (float16)(0.0f)
                                         : vload16(i, memory->vectors + args->convolution_bias + channel);
  }
  EACH(j, CONVOLVE_WINDOW) {
    float taps[CONVOLVE_CHANNELS];
    for (int c = 0; c < CONVOLVE_CHANNELS; c++) {
      taps[c] = memory->vectors[args->convolution + (channel + c) * CONVOLVE_WINDOW + CONVOLVE_WINDOW - 1 - j];
    }
    EACH(i, CONVOLVE_VECTORS) factors[j][i] = vload16(i, taps);
  }
  EACH(j, KEPT_ROWS) {
    EACH(i, CONVOLVE_VECTORS) {
      x[j][i] = entry.from < 0 ? (float16)(0.0f)
                               : vload16(i, state_of(memory, args->place, entry.from) + (KEPT_ROWS - 1 - j) * MIXED + channel);
    }
  }
  for (int t = 0, kept = 0; t < entry.rows; t++) {
    const int row = entry.first_row + t;
    float16 u[CONVOLVE_VECTORS];
    EACH(i, CONVOLVE_VECTORS) {
      EACH(j, KEPT_ROWS) x[KEPT_ROWS - j][i] = x[KEPT_ROWS - j - 1][i];
      x[0][i] = convolved(memory->act + args->mixed + (size_t)row * CONVOLVED_ROW, channel + 16 * i);
      u[i] = fma(factors[KEPT_ROWS][i], x[KEPT_ROWS][i], bias[i]);
      EACH(j, KEPT_ROWS) u[i] = fma(factors[KEPT_ROWS - 1 - j][i], x[KEPT_ROWS - 1 - j][i], u[i]);
    }
    write_sums(memory, args, row, channel, u);
    if (kept < entry.kept_count && entry.kept[2 * kept] == t + 1) {
      keep_rows(state_of(memory, args->place, entry.kept[2 * kept + 1]) + channel, x);
      kept++;
    }
  }
  keep_rows(state_of(memory, args->place, entry.to) + channel, x);
}

#if KEY_HEADS
#if STATE_KIND == STATE_DELTA_NET
// 1 / length of a key or query.
static float inverse_length(__global const float* x, float epsilon)
{
  float16 squares = 0.0f;
  for (int i = 0; i < KEY_SIZE / 16; i++) {
    const float16 v = vload16(i, x);
    squares = fma(v, v, squares);
  }
  return 1.0f / sqrt(sum_16(squares) + epsilon);
}

// S^T k, of a block of S.
static float16 product_of(__global const float* state, __global const float* key)
{
  float16 sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int i = 0; i < KEY_SIZE; i += 4) {
    EACH(j, 4) sums[j] = fma((float16)(key[i + j]), vload16(i + j, state), sums[j]);
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
#endif

// log(1 + exp(x)).
static float softplus(float x) { return fmax(x, 0.0f) + log1p(exp_nonpositive_1(-fabs(x))); }

static void copy_block(__global const float* from, __global float* to)
{
  for (int i = 0; i < KEY_SIZE; i++) STORE_16(vload16(i, from), to + 16 * i);
}

// S = a S + k added^T, then S^T q, of a block of S.
static float16 update_block(__global float* state, float a, __global const float* key, float16 added,
                            __global const float* query)
{
  float16 sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int i = 0; i < KEY_SIZE; i += 4) {
    EACH(j, 4) {
      const float16 s = fma((float16)(key[i + j]), added, vload16(i + j, state) * a);
      STORE_16(s, state + 16 * (i + j));
      sums[j] = fma((float16)(query[i + j]), s, sums[j]);
    }
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static void update_item(const Memory* memory, __global const StateArgs* args, int item)
{
  const int block = item % STATE_BLOCKS, head = item / STATE_BLOCKS % VALUE_HEADS;
  const int column = head * VALUE_SIZE + block * STATE_COLUMNS;
  const StateEntry entry = state_entry(memory, args, item / STATE_BLOCKS / VALUE_HEADS);
  const int offset = KEPT_ROWS * MIXED + (head * STATE_BLOCKS + block) * STATE_BLOCK;
  __global float* state = state_of(memory, args->place, entry.to) + offset;
  if (entry.from < 0) {
    for (int i = 0; i < KEY_SIZE; i++) STORE_16((float16)(0.0f), state + 16 * i);
  } else if (entry.from != entry.to) {
    copy_block(state_of(memory, args->place, entry.from) + offset, state);
  }
  for (int t = 0, kept = 0; t < entry.rows; t++) {
    const size_t row = entry.first_row + t, number = row * VALUE_HEADS + head;
    __global float* mixed = memory->act + args->mixed + row * MIXED;
    __global const float* query = mixed + QUERIES_AT + KEY_HEAD(head) * KEY_SIZE;
    __global const float* key = mixed + KEYS_AT + KEY_HEAD(head) * KEY_SIZE;
    __global float* value = mixed + VALUES_AT + column;
    const float step = softplus(memory->act[args->step + number] + memory->vectors[args->step_bias + head]);
    const float a = exp_nonpositive_1(memory->vectors[args->decay + head] * step);
    const float16 v = vload16(0, value);
#if STATE_KIND == STATE_MAMBA_2
    const float16 gate = vload16(0, memory->act + args->gate + row * VALUES + column);
    const float16 read = fma((float16)(memory->vectors[args->skip + head]), v, update_block(state, a, key, v * step, query));
    STORE_16(read * (gate * sigmoid_16(gate)), value);
#else
    const float b = sigmoid_1(memory->act[args->correction + number]);
    const float key_scale = inverse_length(key, args->epsilon);
    const float query_scale = inverse_length(query, args->epsilon) / sqrt((float)KEY_SIZE);
    const float16 stored = product_of(state, key) * (a * key_scale);
    STORE_16(update_block(state, a, key, (v - stored) * (b * key_scale), query) * query_scale, value);
#endif
    if (kept < entry.kept_count && entry.kept[2 * kept] == t + 1) {
      copy_block(state, state_of(memory, args->place, entry.kept[2 * kept + 1]) + offset);
      kept++;
    }
  }
}

static void read_item(const Memory* memory, __global const StateArgs* args, int item)
{
  const int row = item / (VALUES / NORMED), column = item % (VALUES / NORMED) * NORMED;
  __global const float* o = memory->act + args->mixed + (size_t)row * MIXED + VALUES_AT + column;
  __global const float* norm = memory->vectors + args->norm;
#if STATE_KIND == STATE_MAMBA_2
  norm += column;
#else
  __global const float* gate = memory->act + args->gate + (size_t)row * VALUES + column;
#endif
  float16 squares = 0.0f;
  for (int i = 0; i < NORMED / 16; i++) {
    const float16 v = vload16(i, o);
    squares = fma(v, v, squares);
  }
  const int normed = args->norm >= 0;
  const float scale = 1.0f / sqrt(sum_16(squares) / (float)NORMED + args->epsilon);
  for (int i = 0; i < NORMED; i += 32) {
    float16 y[2];
    EACH(j, 2) {
      y[j] = vload16(j, o + i);
      if (normed) y[j] = y[j] * scale * vload16(j, norm + i);
#if STATE_KIND == STATE_DELTA_NET
      const float16 g = vload16(j, gate + i);
      y[j] *= g * sigmoid_16(g);
#endif
    }
    write_block(memory->act, &args->out, args->rows, row, column + i, VALUES, y[0], y[1]);
  }
}
#endif
