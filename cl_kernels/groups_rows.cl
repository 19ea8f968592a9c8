// SPDX-License-Identifier: Apache-2.0
// groups_rows.cl: embed, norm, rope and combine by work-groups; formulas: rows.cl, combine_item() of attention_item.cl.
//   Mapping: item = a row; of rope and combine a row and KV head (slice).
// Test: tests/unit/exec/determinism_test.cpp, tests/kernel/attention_test.cpp.

#define TILE_NUMBERS (TILE_ROWS * 32)  // of a row, as 64 blocks

static void embed_group(const Memory* memory, const EmbedArgs* args, int row)
{
  int token = memory->step[args->tokens + row];
  if (token < 0) token = memory->row_tokens[-(token + 1)];
  const int type = args->table.type, depth = args->table.depth, lane = token % 16;
  __global const uchar* panel =
      panel_address(memory, args->table.chunk, args->table.offset, token / 16, panel_bytes(type, depth));
  __global float* out = memory->act + args->out + (size_t)row * depth;
  if (!takes_bytes(type)) {
    EACH_THREAD(k, depth) out[k] = args->scale * panel_number(type, panel, lane, k);
  } else {
    EACH_THREAD(i, depth / 4) {
      embed_numbers(type, panel + (size_t)(i / 8) * panel_bytes(type, 32), lane, i % 8, args->scale, out + i / 8 * 32);
    }
  }
}

// Sum of the first 16 * `whole` numbers of a row, or of their squares without the mean, added up as norm_item() does.
static float sum_of_row(__global const float* x, int whole, float mean, int squared, __local float* tile)
{
  float sum = 0.0f;
  for (int column0 = 0; column0 < whole * 16; column0 += TILE_NUMBERS) {
    const int count = min(TILE_NUMBERS, whole * 16 - column0);
    TOGETHER();
#pragma unroll 8
    EACH_THREAD(i, count) tile[i] = x[column0 + i];
    TOGETHER();
    if (THREAD < 16) {
#pragma unroll 16
      for (int i = THREAD; i < count; i += 16) {
        sum = squared ? fma(LESS_MEAN(tile[i]), LESS_MEAN(tile[i]), sum) : sum + tile[i];
      }
    }
  }
  TOGETHER();
  if (THREAD < 16) tile[THREAD] = sum;
  TOGETHER();
  return sum_16(vload16(0, tile));
}

static void norm_group(const Memory* memory, const NormArgs* args, int row, __local float* tile)
{
  const int depth = args->depth, whole = depth / 16;
  const int from = args->rows_from < 0 ? row : memory->step[args->rows_from + row];
  __global const float* x = memory->act + args->in + (size_t)from * depth;
  __global const float* weight = memory->vectors + args->weight;
  float mean = 0.0f;
#if MEAN_NORMS
  mean = sum_of_row(x, whole, 0.0f, 0, tile);
  for (int k = whole * 16; k < depth; k++) mean += x[k];
  mean /= (float)depth;
#endif
  float sum = sum_of_row(x, whole, mean, 1, tile);
  for (int k = whole * 16; k < depth; k++) sum = fma(LESS_MEAN(x[k]), LESS_MEAN(x[k]), sum);
  const float scale = args->scale / sqrt(sum / (float)depth + args->epsilon);
  TOGETHER();
  for (int column0 = 0; column0 < depth; column0 += TILE_NUMBERS) {
    const int count = min(TILE_NUMBERS, depth - column0);
    EACH_THREAD(i, (count + 31) / 32 * 32) {
      const int k = column0 + i;
      float y = k >= depth ? 0.0f : args->weight < 0 ? x[k] : LESS_MEAN(x[k]) * scale * weight[k];
#if MEAN_NORMS
      if (args->bias >= 0 && k < depth) y += args->scale * memory->vectors[args->bias + k];
#endif
      if (args->added_to >= 0 && k < depth) {
        __global float* to = memory->act + args->added_to + (size_t)row * depth + k;
        *to = args->after < 0 ? *to + y : (*to + y) * memory->vectors[args->after];
      }
      if (args->out.floats >= 0 && k < depth) memory->prepared[args->out.floats + (size_t)row * depth + k] = y;
      tile[i / 32 * TILE_STRIDE + i % 32] = y;
    }
    if (args->out.bytes < 0) continue;
    write_tile_bytes(memory->prepared, &args->out, (size_t)(column0 / 32) * args->rows + row, args->rows, (count + 31) / 32,
                     tile);
  }
}

// rotate_head() of `count` heads that lie side by side, all threads.
static void rotate_heads(__global float* heads, int count, __global const float* angles)
{
  EACH_THREAD(i, angles ? count * ROPE_PAIRS : 0) {
    __global float* head = heads + i / ROPE_PAIRS * HEAD_SIZE;
    const int pair = i % ROPE_PAIRS;
    const float c = angles[2 * pair], s = angles[2 * pair + 1];
    const float x = head[ROPE_FIRST(pair)], y = head[ROPE_SECOND(pair)];
    head[ROPE_FIRST(pair)] = x * c - y * s;
    head[ROPE_SECOND(pair)] = x * s + y * c;
  }
}

// norm_head(), likewise.
static void norm_heads(const Memory* memory, __global float* heads, int count, int weight, float epsilon)
{
  EACH_THREAD(head, weight < 0 ? 0 : count) norm_head(memory, heads + head * HEAD_SIZE, weight, epsilon);
}

static void norm_and_rotate_heads(const Memory* memory, __global float* heads, int count, int weight, float epsilon,
                                  __global const float* angles)
{
#if NORM_ROTATED
  rotate_heads(heads, count, angles);
  barrier(CLK_GLOBAL_MEM_FENCE);
  norm_heads(memory, heads, count, weight, epsilon);
#else
  if (weight >= 0) {
    norm_heads(memory, heads, count, weight, epsilon);
    barrier(CLK_GLOBAL_MEM_FENCE);
  }
  rotate_heads(heads, count, angles);
#endif
}

static void rope_group(const Memory* memory, const RopeArgs* args, int item)
{
  const int kv_heads = KV_HEADS_OF(args), shared = HEADS / kv_heads, row = item / kv_heads, group = item % kv_heads;
  const int position = memory->step[args->positions + row];
  __global const int* table = memory->step + memory->step[args->tables + row];
  __global const float *angles = angles_at(memory, args->angles, position),
                       *query_angles = angles_at(memory, args->query_angles, position);
  __global float* query = memory->act + args->query + ((size_t)row * HEADS + group * shared) * HEAD_SIZE;
  __global float* key = memory->act + args->key + (size_t)item * HEAD_SIZE;
  __global const float* value = memory->act + args->value + (size_t)item * HEAD_SIZE;
  if (args->key >= 0) norm_and_rotate_heads(memory, key, 1, args->key_norm, args->epsilon, angles);
  norm_and_rotate_heads(memory, query, shared, args->query_norm, args->epsilon, query_angles);
  barrier(CLK_GLOBAL_MEM_FENCE);
  if (args->key < 0) return;
  const int slot = position % BLOCK_TOKENS, lane = slot % KV_GROUP;
  __global uchar* keys = kv_unit(memory, table[position / BLOCK_TOKENS] + args->unit + group) +
                         slot / KV_GROUP * KV_GROUP_BYTES;
  __global uchar* values = keys + KV_HALF_BYTES;
#if KV_TYPE == TYPE_Q8_0
  EACH_THREAD(i, HEAD_SIZE / 32) store_token_block(key, value, i, lane, keys, values);
#else
  EACH_THREAD(i, HEAD_SIZE) {
    KV_STORE(key[i], i * KV_GROUP + lane, keys);
    KV_STORE(value[i], lane * HEAD_SIZE + i, values);
  }
#endif
}

// All columns of a row.
static CombineWork whole_row(const Memory* memory, const CombineArgs* args, int row)
{
  CombineWork work = combine_work(memory, *args, row * COMBINE_SLICES);
  work.end = HEADS * HEAD_SIZE;
  return work;
}

static void combine_columns(const Memory* memory, const CombineArgs* args, CombineWork work, __local float* tile)
{
  for (int column0 = work.begin; column0 < work.end; column0 += TILE_NUMBERS) {
    const int count = min(TILE_NUMBERS, work.end - column0);
    EACH_THREAD(i, count) {
      const int column = column0 + i;
      float value;
      if (work.partial < 0) {
        value = work.in[column];
      } else {
        const int slot = work.partial + column / HEAD_SIZE * work.partitions;
        __global const float* from = memory->act + args->partials + (size_t)slot * PARTIAL_WORDS;
        float largest = from[HEAD_SIZE], total = from[HEAD_SIZE + 1];
        value = from[column % HEAD_SIZE];
        for (int p = 1; p < work.partitions; p++) {
          from += PARTIAL_WORDS;
          const float2 factors = merge_factors(&largest, &total, from[HEAD_SIZE], from[HEAD_SIZE + 1]);
          value = value * factors.x + from[column % HEAD_SIZE] * factors.y;
        }
        const float scale = end_factor(memory, args->sinks, column / HEAD_SIZE, largest, total);
        value = value * scale;
      }
      if (args->gate >= 0) value *= sigmoid_1(memory->act[args->gate + (size_t)work.row * (HEADS * HEAD_SIZE) + column]);
      if (work.partial >= 0 || work.in != work.out || args->gate >= 0) work.out[column] = value;
      tile[i / 32 * TILE_STRIDE + i % 32] = value;
    }
    if (args->out.bytes < 0) continue;
    const size_t block = (size_t)(column0 / 32) * args->rows + work.row;
    write_tile_bytes(memory->prepared, &args->out, block, args->rows, count / 32, tile);
  }
}

static void combine_group(const Memory* memory, const CombineArgs* args, int item, __local float* tile)
{
  combine_columns(memory, args, combine_work(memory, *args, item), tile);
}
