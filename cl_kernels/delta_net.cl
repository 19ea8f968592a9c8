// SPDX-License-Identifier: Apache-2.0
// delta_net.cl: layers with a state in the place of attention (gated delta net): a head keeps a matrix S, which every token
// decays, corrects where its key points, and reads where its query points.
//   With m[t, :] the mixed rows, queries and keys of KEY_HEADS heads and values of VALUE_HEADS, D numbers each, in this order:
//   convolve: m[t, c] = silu(sum_j convolution[c][j] * x[t - W + 1 + j, c]), 0 <= j < W, x the rows that stood there; of
//          tokens before the sequence's first x is 0
//   delta: of value head h, its key head g = h % KEY_HEADS, q and k of length 1 (x / sqrt(sum x^2 + epsilon)):
//            a = exp(decay[h] * log(1 + exp(step[t, h] + step_bias[h]))), b = 1 / (1 + exp(-correction[t, h]))
//            S = a S,  d = b (v - S^T k),  S = S + k d^T,  o = S^T q / sqrt(D);  o takes the place of v
//   read:  y[t, h, :] = o / sqrt(mean o^2 + epsilon) * norm * silu(gate[t, h, :]), as the rows of the next layer
//   Tokens come one after the other, so a token's numbers do not depend on how its sequence is cut into steps.
//   Entries, STATE_ENTRY_WORDS ints each, one a sequence of the step: its first row, its rows, the slot whose state it begins
//   with or -1 (all 0), the slot that it leaves its state in, 1 + the offset in `step` of the places in which its states on the
//   way are kept (count, then of each: after how many of its rows, slot), or 0.
//   A slot of `states`: of each layer the last W - 1 rows x [W - 1][MIXED], then S of each head as D / 16 blocks [D][16] of its
//   columns: v's numbers, along which all is independent.
//   Mapping: convolve: item = (entry, 32 channels); delta: item = (entry, value head, block of columns), which stays in the
//   first-level cache; read: item = (row, value head).
//   -D KEY_HEADS, VALUE_HEADS, DELTA_SIZE (D, a multiple of 32), CONVOLVE_WINDOW (W), DELTA_LAYERS.
//   Accumulation: float; along D four sums, of every fourth number each. Tolerance 1e-4. Test: tests/kernel/delta_net_test.cpp.
// Source: Yang, Kautz and Hatamizadeh 2024 (gated delta networks).

#define STATE_ENTRY_WORDS 5
#define DELTA_COLUMNS 16
#define CONVOLVE_CHANNELS 32
#define CONVOLVE_VECTORS (CONVOLVE_CHANNELS / 16)
#define MIXED ((2 * KEY_HEADS + VALUE_HEADS) * DELTA_SIZE)
#define KEPT_ROWS (CONVOLVE_WINDOW - 1)
#define STATE_BLOCK (DELTA_SIZE * DELTA_COLUMNS)
#define STATE_BLOCKS (DELTA_SIZE / DELTA_COLUMNS)
#define LAYER_STATE (KEPT_ROWS * MIXED + VALUE_HEADS * STATE_BLOCKS * STATE_BLOCK)

typedef struct {
  int first_row, rows, from, to;
  __global const int* kept;  // pairs of rows and slot
  int kept_count;
} StateEntry;
static StateEntry state_entry(const Memory* memory, __global const DeltaArgs* args, int entry)
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
  return memory->states + ((ulong)slot * DELTA_LAYERS + place) * LAYER_STATE;
}

// The rows before row `end` of an entry become those that a slot keeps; x: the last of them, the newest first.
static void keep_rows(__global float* kept, float16 (*x)[CONVOLVE_VECTORS])
{
  EACH(j, KEPT_ROWS) {
    EACH(i, CONVOLVE_VECTORS) STORE_16(x[j][i], kept + (KEPT_ROWS - 1 - j) * MIXED + 16 * i);
  }
}

static void convolve_item(const Memory* memory, __global const DeltaArgs* args, int item)
{
  const int groups = MIXED / CONVOLVE_CHANNELS, channel = item % groups * CONVOLVE_CHANNELS;
  const StateEntry entry = state_entry(memory, args, item / groups);
  float16 factors[CONVOLVE_WINDOW][CONVOLVE_VECTORS], x[CONVOLVE_WINDOW][CONVOLVE_VECTORS];  // x[j]: of j tokens before
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
  __global float* row = memory->act + args->mixed + (size_t)entry.first_row * MIXED + channel;
  for (int t = 0, kept = 0; t < entry.rows; t++, row += MIXED) {
    EACH(i, CONVOLVE_VECTORS) {
      EACH(j, KEPT_ROWS) x[KEPT_ROWS - j][i] = x[KEPT_ROWS - j - 1][i];
      x[0][i] = vload16(i, row);
      float16 sum = factors[KEPT_ROWS][i] * x[KEPT_ROWS][i];
      EACH(j, KEPT_ROWS) sum = fma(factors[KEPT_ROWS - 1 - j][i], x[KEPT_ROWS - 1 - j][i], sum);
      STORE_16(sum * sigmoid_16(sum), row + 16 * i);
    }
    if (kept < entry.kept_count && entry.kept[2 * kept] == t + 1) {
      keep_rows(state_of(memory, args->place, entry.kept[2 * kept + 1]) + channel, x);
      kept++;
    }
  }
  keep_rows(state_of(memory, args->place, entry.to) + channel, x);
}

// 1 / length of D numbers.
static float inverse_length(__global const float* x, float epsilon)
{
  float16 squares = 0.0f;
  for (int i = 0; i < DELTA_SIZE / 16; i++) {
    const float16 v = vload16(i, x);
    squares = fma(v, v, squares);
  }
  return 1.0f / sqrt(sum_16(squares) + epsilon);
}

// log(1 + exp(x)).
static float softplus(float x) { return fmax(x, 0.0f) + log1p(exp_nonpositive_1(-fabs(x))); }

static void copy_block(__global const float* from, __global float* to)
{
  for (int i = 0; i < DELTA_SIZE; i++) STORE_16(vload16(i, from), to + 16 * i);
}

static void delta_item(const Memory* memory, __global const DeltaArgs* args, int item)
{
  const int block = item % STATE_BLOCKS, head = item / STATE_BLOCKS % VALUE_HEADS;
  const StateEntry entry = state_entry(memory, args, item / STATE_BLOCKS / VALUE_HEADS);
  const int offset = KEPT_ROWS * MIXED + (head * STATE_BLOCKS + block) * STATE_BLOCK;
  __global float* state = state_of(memory, args->place, entry.to) + offset;
  if (entry.from < 0) {
    for (int i = 0; i < DELTA_SIZE; i++) STORE_16((float16)(0.0f), state + 16 * i);
  } else if (entry.from != entry.to) {
    copy_block(state_of(memory, args->place, entry.from) + offset, state);
  }
  __global float* query = memory->act + args->mixed + (size_t)entry.first_row * MIXED + head % KEY_HEADS * DELTA_SIZE;
  for (int t = 0, kept = 0; t < entry.rows; t++, query += MIXED) {
    __global const float* key = query + KEY_HEADS * DELTA_SIZE;
    __global float* value = memory->act + args->mixed + (size_t)(entry.first_row + t) * MIXED +
                            (2 * KEY_HEADS + head) * DELTA_SIZE + block * DELTA_COLUMNS;
    const size_t gate = (size_t)(entry.first_row + t) * VALUE_HEADS + head;
    const float step = softplus(memory->act[args->step + gate] + memory->vectors[args->step_bias + head]);
    const float a = exp_nonpositive_1(memory->vectors[args->decay + head] * step);
    const float b = sigmoid_1(memory->act[args->correction + gate]);
    const float key_scale = inverse_length(key, args->epsilon);
    const float query_scale = inverse_length(query, args->epsilon) / sqrt((float)DELTA_SIZE);
    float16 sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int i = 0; i < DELTA_SIZE; i += 4) {
      EACH(j, 4) sums[j] = fma((float16)(key[i + j]), vload16(i + j, state), sums[j]);
    }
    const float16 stored = ((sums[0] + sums[1]) + (sums[2] + sums[3])) * (a * key_scale);
    const float16 added = (vload16(0, value) - stored) * (b * key_scale);
    EACH(j, 4) sums[j] = 0.0f;
    for (int i = 0; i < DELTA_SIZE; i += 4) {
      EACH(j, 4) {
        const float16 s = fma((float16)(key[i + j]), added, vload16(i + j, state) * a);
        STORE_16(s, state + 16 * (i + j));
        sums[j] = fma((float16)(query[i + j]), s, sums[j]);
      }
    }
    STORE_16(((sums[0] + sums[1]) + (sums[2] + sums[3])) * query_scale, value);
    if (kept < entry.kept_count && entry.kept[2 * kept] == t + 1) {
      copy_block(state, state_of(memory, args->place, entry.kept[2 * kept + 1]) + offset);
      kept++;
    }
  }
}

static void read_item(const Memory* memory, __global const DeltaArgs* args, int item)
{
  const int row = item / VALUE_HEADS, column = item % VALUE_HEADS * DELTA_SIZE;
  __global const float* o = memory->act + args->mixed + (size_t)row * MIXED + 2 * KEY_HEADS * DELTA_SIZE + column;
  __global const float* gate = memory->act + args->gate + (size_t)row * (VALUE_HEADS * DELTA_SIZE) + column;
  __global const float* norm = memory->vectors + args->norm;
  float16 squares = 0.0f;
  for (int i = 0; i < DELTA_SIZE / 16; i++) {
    const float16 v = vload16(i, o);
    squares = fma(v, v, squares);
  }
  const float scale = 1.0f / sqrt(sum_16(squares) / (float)DELTA_SIZE + args->epsilon);
  for (int i = 0; i < DELTA_SIZE; i += 32) {
    const float16 g0 = vload16(0, gate + i), g1 = vload16(1, gate + i);
    const float16 y0 = vload16(0, o + i) * scale * vload16(0, norm + i) * (g0 * sigmoid_16(g0));
    const float16 y1 = vload16(1, o + i) * scale * vload16(1, norm + i) * (g1 * sigmoid_16(g1));
    write_block(memory->act, &args->out, args->rows, row, column + i, VALUE_HEADS * DELTA_SIZE, y0, y1);
  }
}
