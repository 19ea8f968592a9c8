// SPDX-License-Identifier: Apache-2.0
// rows.cl: operations on whole rows of activations.
//   embed: out[t, :] = scale * table[token[t], :]; a token below 0 is the last one sampled for row -(token + 1)
//   norm:  y[t, k] = x[t', k] * scale / sqrt(mean_k x[t', k]^2 + epsilon) * weight[k]; t' = t, or rows_from[t]; without a
//          weight y = x. y is written as the rows of the next layer, or added to what stands at added_to, and the sum
//          multiplied by the number at `after`. With -D MEAN_NORMS=1 x has its mean taken out before, and scale * bias[k] is
//          added (LayerNorm).
//   rope:  rotates q and k by position, in layers that do, each head normed before where the model has weights for it (with
//          -D NORM_ROTATED=1 behind), and writes k and v of the token to its place in the paged KV storage
// Accumulation: float; of a row 16 partial sums in a fixed order, of a head (norm_head) one sum in order.
// Tolerance 1e-5. Test: tests/kernel/rows_test.cpp.
// Sources: Zhang and Sennrich 2019 (RMSNorm), Ba et al. 2016 (LayerNorm), Su et al. 2021 (RoPE).

// Of the 32 numbers of output `lane` in one block the four from 4 * k4 on, times `scale`.
static void embed_numbers(int type, __global const uchar* block, int lane, int k4, float scale, __global float* out)
{
  const int two = has_two_halves(type);
  const float d = type == TYPE_MXFP4 ? as_float((int)block[lane] << 23) : vload_half(lane, (__global const half*)block);
  const float e = two ? vload_half(16 + lane, (__global const half*)block) : 0.0f;  // second scale, or minimum
  __global const int* words = (__global const int*)(block + head_bytes(type)) + lane;
  const int w = type == TYPE_Q8_0 ? words[16 * k4] : four_numbers_1(type, words, k4);
  const float4 numbers = convert_float4(as_char4(w));
  vstore4(scale * (type == TYPE_Q6_K ? (k4 < 4 ? d : e) * numbers : d * numbers + e), k4, out);
}

// All 32.
static void embed_block(int type, __global const uchar* block, int lane, float scale, __global float* out)
{
  for (int k4 = 0; k4 < 8; k4++) embed_numbers(type, block, lane, k4, scale, out);
}

static void embed_item(const Memory* memory, __global const EmbedArgs* args, int row)
{
  int token = memory->step[args->tokens + row];
  if (token < 0) token = memory->row_tokens[-(token + 1)];
  const int type = args->table.type, depth = args->table.depth;
  __global const uchar* panel = weight_panel(memory, &args->table, token / 16, panel_bytes(type, depth));
  __global float* out = memory->act + args->out + (size_t)row * depth;
  const int lane = token % 16;
  if (!takes_bytes(type)) {
    for (int k = 0; k < depth; k++) out[k] = args->scale * panel_number(type, panel, lane, k);
    return;
  }
  for (int k = 0; k < depth; k += 32, panel += panel_bytes(type, 32)) embed_block(type, panel, lane, args->scale, out + k);
}

// 32 columns of y, fewer at a row's end.
static void write_normed(const Memory* memory, __global const NormArgs* args, int row, int column, float16 a, float16 b)
{
  if (args->added_to < 0) {
    write_block(memory->prepared, &args->out, args->rows, row, column, args->depth, a, b);
    return;
  }
  __global float* to = memory->act + args->added_to + (size_t)row * args->depth + column;
  const int left = args->depth - column, scaled = args->after >= 0;
  if (scaled) {
    const float factor = memory->vectors[args->after];
    a = (load_columns(to, left, 0.0f) + a) * factor;
    b = (load_columns(to + 16, left - 16, 0.0f) + b) * factor;
  }
  store_columns(to, left, a, !scaled);
  if (left > 16) store_columns(to + 16, left - 16, b, !scaled);
}

#if MEAN_NORMS
#define LESS_MEAN(x) ((x) - mean)
#else
#define LESS_MEAN(x) (x)
#endif

static void norm_item(const Memory* memory, __global const NormArgs* args, int row)
{
  const int depth = args->depth, normed = args->weight >= 0;
  const int from = args->rows_from < 0 ? row : memory->step[args->rows_from + row];
  __global const float* x = memory->act + args->in + (size_t)from * depth;
  __global const float* weight = memory->vectors + args->weight;
  const int whole = depth / 16;
#if MEAN_NORMS
  __global const float* bias = memory->vectors + args->bias;
  const int biased = args->bias >= 0;
  float16 sums = 0.0f;
  for (int i = 0; i < whole; i++) sums += vload16(i, x);
  float mean = sum_16(sums);
  for (int k = whole * 16; k < depth; k++) mean += x[k];
  mean /= (float)depth;
#endif
  float16 squares = 0.0f;
  for (int i = 0; i < whole; i++) {
    const float16 v = LESS_MEAN(vload16(i, x));
    squares = fma(v, v, squares);
  }
  float sum = sum_16(squares);
  for (int k = whole * 16; k < depth; k++) sum = fma(LESS_MEAN(x[k]), LESS_MEAN(x[k]), sum);
  const float scale = args->scale / sqrt(sum / (float)depth + args->epsilon);
  for (int column = 0; column < depth; column += 32) {
    float16 a, b;
    if (column + 32 <= depth) {
      a = vload16(0, x + column);
      b = vload16(1, x + column);
      if (normed) {
        a = LESS_MEAN(a) * scale * vload16(0, weight + column);
        b = LESS_MEAN(b) * scale * vload16(1, weight + column);
      }
#if MEAN_NORMS
      if (biased) {
        a += args->scale * vload16(0, bias + column);
        b += args->scale * vload16(1, bias + column);
      }
#endif
    } else {
      float values[32];
      for (int i = 0; i < 32; i++) {
        values[i] = column + i < depth ? x[column + i] : 0.0f;
        if (normed && column + i < depth) values[i] = LESS_MEAN(values[i]) * scale * weight[column + i];
#if MEAN_NORMS
        if (biased && column + i < depth) values[i] += args->scale * bias[column + i];
#endif
      }
      a = vload16(0, values);
      b = vload16(1, values);
    }
    write_normed(memory, args, row, column, a, b);
  }
}

// K and V of one token block in one layer and KV head: K of each group of KV_GROUP tokens, then V of each group.
//   f16, f32  K group [HEAD_SIZE][KV_GROUP] numbers, V group [KV_GROUP][HEAD_SIZE]
//   q8_0      K group [HEAD_SIZE / 32] of ([KV_GROUP] half scales, [32][KV_GROUP] int8)
//             V group [HEAD_SIZE / 32][KV_GROUP] half scales, then [KV_GROUP][HEAD_SIZE] int8
//   i16       K group [KV_GROUP] float scales, then [HEAD_SIZE / 2][KV_GROUP][2] int16
//             V group [KV_GROUP] float scales, then [KV_GROUP / 2][HEAD_SIZE][2 tokens] int16
//   A q8_0 number is scale * int8, scale = largest of the token's 32 / 127. HEAD_SIZE is then a multiple of 32.
//   An i16 number is scale * int16, scale = largest of the token's head / KV_INT_MAX. HEAD_SIZE is even.
// That is a unit of the KV storage; a block has one for each KV head of its layers, those of a layer one after the other.
// -D KV_TYPE TYPE_F16|TYPE_F32|TYPE_Q8_0|TYPE_I16; UNITS_A_CHUNK where the units lie in several buffers.
#if KV_TYPE == TYPE_Q8_0
#define KV_HEAD_BYTES (HEAD_SIZE / 32 * 34)  // K or V of a token
#define KV_SCALE_BYTES (KV_GROUP * 2)        // of 32 numbers of a group's tokens
#elif KV_TYPE == TYPE_I16
#define KV_HEAD_BYTES (HEAD_SIZE * 2 + 4)
#define KV_SCALE_BYTES (KV_GROUP * 4)  // of a group's tokens
#define KV_INT_MAX 8191
#elif KV_TYPE == TYPE_F16
#define KV_HEAD_BYTES (HEAD_SIZE * 2)
#else
#define KV_HEAD_BYTES (HEAD_SIZE * 4)
#endif
#define KV_GROUP_BYTES (KV_GROUP * KV_HEAD_BYTES)
#define KV_HALF_BYTES (BLOCK_TOKENS * KV_HEAD_BYTES)
static __global uchar* kv_unit(const Memory* memory, int unit)
{
#ifdef UNITS_A_CHUNK
  const int chunk = unit / UNITS_A_CHUNK;
  __global uchar* base = chunk == 0 ? memory->kv0 : chunk == 1 ? memory->kv1 : chunk == 2 ? memory->kv2 : memory->kv3;
  return base + (ulong)(unit % UNITS_A_CHUNK) * (2 * KV_HALF_BYTES);
#else
  return memory->kv0 + (ulong)unit * (2 * KV_HALF_BYTES);
#endif
}

// KV heads of a stage's layer: KV_HEADS, but with LOCAL_KV_HEADS its own.
#if LOCAL_KV_HEADS
#define KV_HEADS_OF(args) (args)->kv_heads
#else
#define KV_HEADS_OF(args) KV_HEADS
#endif

// Writes K and V of the token in place `lane` of a group.
#if KV_TYPE == TYPE_Q8_0
// 32 numbers as int8 at to[0], to[stride], ...; returns their scale, NaN if a number is none or infinite.
static float quantise_block(__global const float* from, __global char* to, int stride)
{
  int most = 0;  // by their bits: infinity and NaN are the largest (Mesa folds what would find them by arithmetic)
  for (int i = 0; i < 32; i++) most = max(most, as_int(from[i]) & 0x7FFFFFFF);
  const float largest = as_float(most);
  const float scale = largest / 127.0f, inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
  for (int i = 0; i < 32; i++) to[i * stride] = convert_char_sat_rte(from[i] * inverse);
  return scale + (largest - largest);
}

// The 32 numbers of K and of V from number 32 * i of a head on.
static void store_token_block(__global const float* key, __global const float* value, int i, int lane, __global uchar* keys,
                              __global uchar* values)
{
  __global uchar* block = keys + i * (34 * KV_GROUP);
  __global char* key_bytes = (__global char*)block + KV_SCALE_BYTES + lane;
  vstore_half(quantise_block(key + i * 32, key_bytes, KV_GROUP), lane, (__global half*)block);
  __global char* value_bytes = (__global char*)values + HEAD_SIZE / 32 * KV_SCALE_BYTES + lane * HEAD_SIZE;
  const float scale = quantise_block(value + i * 32, value_bytes + i * 32, 1);
  vstore_half(scale, i * KV_GROUP + lane, (__global half*)values);
}

static void store_token(__global const float* key, __global const float* value, int lane, __global uchar* keys,
                        __global uchar* values)
{
  for (int i = 0; i < HEAD_SIZE / 32; i++) store_token_block(key, value, i, lane, keys, values);
}
#elif KV_TYPE == TYPE_I16
#define TINY 1e-30f  // magnitudes below are taken as 0, so that what they are divided by is finite

// A head's numbers, each times `factor`, as int16.
typedef short8 __attribute__((aligned(2))) short8_anywhere;  // one store (PoCL's vstore8 takes eight)
static void quantise_numbers(__global const float* from, float factor, short* to)
{
  int i = 0;
  for (; i + 8 <= HEAD_SIZE; i += 8) *(short8_anywhere*)(to + i) = convert_short8(nearest_int_8(vload8(0, from + i), factor));
  for (; i < HEAD_SIZE; i++) to[i] = nearest_int_1(from[i], factor);
}

// A head's numbers as int16; returns their scale, NaN if a number is none or infinite.
static float quantise_head(__global const float* from, short* to)
{
  int most = 0;
  int i = 0;
#if HEAD_SIZE >= 8
  int8 most_8 = 0;
  for (; i + 8 <= HEAD_SIZE; i += 8) most_8 = max(most_8, as_int8(vload8(0, from + i)) & 0x7FFFFFFF);
  most = max_int_8(most_8);
#endif
  for (; i < HEAD_SIZE; i++) most = max(most, as_int(from[i]) & 0x7FFFFFFF);
  const float largest = as_float(most);  // magnitudes have the order of their bits; infinity and NaN are the largest
  const float inverse = largest > TINY ? KV_INT_MAX / largest : 0.0f;
  quantise_numbers(from, inverse, to);
  return largest * (1.0f / KV_INT_MAX) + (largest - largest);
}

static void store_token(__global const float* key, __global const float* value, int lane, __global uchar* keys,
                        __global uchar* values)
{
  short numbers[HEAD_SIZE];
  ((__global float*)keys)[lane] = quantise_head(key, numbers);
  __global int* key_pairs = (__global int*)(keys + KV_SCALE_BYTES) + lane;
  for (int i = 0; i < HEAD_SIZE / 2; i++) key_pairs[i * KV_GROUP] = (numbers[2 * i] & 0xFFFF) | (numbers[2 * i + 1] << 16);
  ((__global float*)values)[lane] = quantise_head(value, numbers);
  __global short* to = (__global short*)(values + KV_SCALE_BYTES) + lane / 2 * (HEAD_SIZE * 2) + lane % 2;
  for (int i = 0; i < HEAD_SIZE; i++) to[2 * i] = numbers[i];
}
#else
#if KV_TYPE == TYPE_F16
#define KV_STORE(value, index, to) vstore_half(value, index, (__global half*)(to))
// 8 halves, rounded to nearest even; by memory, since drivers may compile for a processor without these registers.
#define STORE_HALVES_8(from, to) \
  __asm__ volatile("vmovups (%0), %%ymm0\nvcvtps2ph $0, %%ymm0, (%1)" : : "r"(from), "r"(to) : "xmm0", "memory")
#else
#define KV_STORE(value, index, to) ((__global float*)(to))[index] = value
#endif
static void store_token(__global const float* key, __global const float* value, int lane, __global uchar* keys,
                        __global uchar* values)
{
  int i = 0;
#if KV_TYPE == TYPE_F16 && INFLIGHT_F16C  // vstore_half() is slow where drivers write it out
  for (; i + 8 <= HEAD_SIZE; i += 8) {
    ushort halves[8];
    STORE_HALVES_8(key + i, halves);
    for (int j = 0; j < 8; j++) ((__global ushort*)keys)[(i + j) * KV_GROUP + lane] = halves[j];
    STORE_HALVES_8(value + i, (__global ushort*)values + lane * HEAD_SIZE + i);
  }
#endif
  for (; i < HEAD_SIZE; i++) {
    KV_STORE(key[i], i * KV_GROUP + lane, keys);
    KV_STORE(value[i], lane * HEAD_SIZE + i, values);
  }
}
#endif

// Pair i of a head: (2i, 2i+1) interleaved, (i, i + ROPE_PAIRS) half-split.
#define ROPE_FIRST(i) (ROPE_INTERLEAVED ? 2 * (i) : (i))
#define ROPE_SECOND(i) (ROPE_INTERLEAVED ? 2 * (i) + 1 : (i) + ROPE_PAIRS)

static void rotate_head(__global float* head, __global const float* angles)
{
  if (!angles) return;
  for (int i = 0; i < ROPE_PAIRS / 8 * 8; i += 8) {
    const float16 angle = vload16(0, angles + 2 * i);
#if ROPE_INTERLEAVED
    const float16 v = vload16(0, head + 2 * i);
    float16 rotated;
    rotated.even = v.even * angle.even - v.odd * angle.odd;
    rotated.odd = v.even * angle.odd + v.odd * angle.even;
    STORE_16(rotated, head + 2 * i);
#else
    const float8 x = vload8(0, head + i), y = vload8(0, head + i + ROPE_PAIRS);
    STORE_8(x * angle.even - y * angle.odd, head + i);
    STORE_8(x * angle.odd + y * angle.even, head + i + ROPE_PAIRS);
#endif
  }
  for (int i = ROPE_PAIRS / 8 * 8; i < ROPE_PAIRS; i++) {
    const float c = angles[2 * i], s = angles[2 * i + 1];
    const float x = head[ROPE_FIRST(i)], y = head[ROPE_SECOND(i)];
    head[ROPE_FIRST(i)] = x * c - y * s;
    head[ROPE_SECOND(i)] = x * s + y * c;
  }
}

// The numbers of a head that a norm is of: with -D LATENT=1 those that are not rotated, else all.
#if LATENT
#define NORM_FIRST (2 * ROPE_PAIRS)
#else
#define NORM_FIRST 0
#endif

// head[i] / sqrt(mean(head^2) + epsilon) * weight[i]; weight < 0: as it is.
static void norm_head(const Memory* memory, __global float* head, int weight, float epsilon)
{
  if (weight < 0) return;
  float sum = 0.0f;
  for (int i = NORM_FIRST; i < HEAD_SIZE; i++) sum = fma(head[i], head[i], sum);
  const float scale = 1.0f / sqrt(sum / (float)(HEAD_SIZE - NORM_FIRST) + epsilon);
  for (int i = NORM_FIRST; i < HEAD_SIZE; i++) head[i] = head[i] * scale * memory->vectors[weight + i - NORM_FIRST];
}

static void norm_and_rotate_head(const Memory* memory, __global float* head, int weight, float epsilon,
                                 __global const float* angles)
{
#if NORM_ROTATED
  rotate_head(head, angles);
  norm_head(memory, head, weight, epsilon);
#else
  norm_head(memory, head, weight, epsilon);
  rotate_head(head, angles);
#endif
}

// Those of a position; null where heads are not rotated.
static __global const float* angles_at(const Memory* memory, int angles, int position)
{
  return angles < 0 ? 0 : memory->angles + angles + (size_t)position * (2 * ROPE_PAIRS);
}

// Item = one row and KV head, with the query heads that share it.
static void rope_item(const Memory* memory, __global const RopeArgs* args, int item)
{
  const int kv_heads = KV_HEADS_OF(args), shared = HEADS / kv_heads, row = item / kv_heads, group = item % kv_heads;
  const int position = memory->step[args->positions + row];
  __global const int* table = memory->step + memory->step[args->tables + row];
  __global const float *angles = angles_at(memory, args->angles, position),
                       *query_angles = angles_at(memory, args->query_angles, position);
  __global float* query = memory->act + args->query + ((size_t)row * HEADS + group * shared) * HEAD_SIZE;
  for (int head = 0; head < shared; head++) {
    norm_and_rotate_head(memory, query + head * HEAD_SIZE, args->query_norm, args->epsilon, query_angles);
  }
  if (args->key < 0) return;
  __global float* key = memory->act + args->key + (size_t)item * HEAD_SIZE;
  __global const float* value = memory->act + args->value + (size_t)item * HEAD_SIZE;
  norm_and_rotate_head(memory, key, args->key_norm, args->epsilon, angles);
  const int slot = position % BLOCK_TOKENS;
  __global uchar* keys = kv_unit(memory, table[position / BLOCK_TOKENS] + args->unit + group) +
                         slot / KV_GROUP * KV_GROUP_BYTES;
  store_token(key, value, slot % KV_GROUP, keys, keys + KV_HALF_BYTES);
}
