// SPDX-License-Identifier: Apache-2.0
// attention.cl: rows of queries attend to their sequence's paged K and V; decode and prefill alike.
//   out[t, h, :] = sum_j softmax_j(q[t, h, :] . K[j, g, :] / sqrt(D)) V[j, g, :],  g = h / (H/G), 0 <= j <= position[t];
//   with a sliding window of W tokens, j > position[t] - W, too.
//   query, out [T][H][D] f32; KV storage: rows.cl.
//   The context is cut at multiples of PARTITION tokens. Within a partition: all scores, their maximum m, weights
//   p_j = exp(s_j - m), l = sum p_j, a = sum p_j V_j, tokens in order. Partitions are merged in order:
//     M' = max(M, m), A = A exp(M - M') + a exp(m - M'), L likewise.
//   So a row's arithmetic depends on its position alone: not on the tile it is computed in, nor on whether one item walks
//   through all partitions (merging as it goes) or each partition has its own and combine_item() merges.
//   Work list, 8 ints an item: first row, rows, KV head, first partition, end partition, partial slot of (first row, first
//   head of the group, the row's first partition) or -1 = write the result, partitions of the row, its first partition.
//   Split items have one row. Partitions wholly before the window of the first row are in no list.
//   Partials: slot (row, head, partition): D numbers of a, then m, then l.
//   Mapping: item = work-list entry; tiles of up to QUERY_TILE (8 or 1) queries share each K and V that is loaded.
//   -D HEADS, KV_HEADS, HEAD_SIZE, BLOCK_TOKENS, KV_GROUP (tokens side by side in K: 8 or 16), HEAD_VECTOR (2..16, divides
//   HEAD_SIZE), WINDOW (W, 0 = none), QUERY_TILE. Tolerance vs f64: 2e-5 (f32 storage). Test: tests/kernel/attention_test.cpp.
// Source: Milakov and Gimelshein 2018 (online softmax), Kwon et al. 2023 (paged attention).

#define PARTITION 256
#define SHARED_HEADS (HEADS / KV_HEADS)
#define QUERIES_MAX 32  // of one item; rows * SHARED_HEADS, or SHARED_HEADS if that is more (then in several passes)
#define PARTIAL_WORDS (HEAD_SIZE + 2)

#define CONCAT_(a, b) a##b
#define CONCAT(a, b) CONCAT_(a, b)
#define KV_FLOATS CONCAT(float, KV_GROUP)
#define KV_INTS CONCAT(int, KV_GROUP)
#define HEAD_FLOATS CONCAT(float, HEAD_VECTOR)
// Of a K group: number i of its tokens, within a part of KEY_PART numbers at `p` that is PART_BYTES long. END_PART adds a
// part's sum to a score. Of a V group: HEAD_VECTOR numbers i of token j.
#if KV_TYPE == TYPE_Q8_0
#define KEY_PART 32
#define PART_BYTES (34 * KV_GROUP)
#define LOAD_K(i, p) CONCAT(convert_, KV_FLOATS)(CONCAT(vload, KV_GROUP)(i, (__global const char*)(p) + KV_SCALE_BYTES))
#define END_PART(sum, score, p) fma(sum, LOAD_SCALES(0, p), score)
#define LOAD_SCALES(i, p) CONCAT(vload_half, KV_GROUP)(i, (__global const half*)(p))
#define VALUES(p) ((__global const char*)(p) + HEAD_SIZE / 32 * KV_SCALE_BYTES)
#define LOAD_V(i, j, p) CONCAT(convert_, HEAD_FLOATS)(CONCAT(vload, HEAD_VECTOR)(i, VALUES(p) + (j) * HEAD_SIZE))
#else
#define KEY_PART HEAD_SIZE
#define PART_BYTES KV_GROUP_BYTES
#define END_PART(sum, score, p) (sum)
#if KV_TYPE == TYPE_F16
#define LOAD_K(i, p) CONCAT(vload_half, KV_GROUP)(i, (__global const half*)(p))
#define LOAD_V(i, j, p) CONCAT(vload_half, HEAD_VECTOR)(i, (__global const half*)(p) + (j) * HEAD_SIZE)
#else
#define LOAD_K(i, p) CONCAT(vload, KV_GROUP)(i, (__global const float*)(p))
#define LOAD_V(i, j, p) CONCAT(vload, HEAD_VECTOR)(i, (__global const float*)(p) + (j) * HEAD_SIZE)
#endif
#endif
#define STORE_HEAD CONCAT(vstore, HEAD_VECTOR)
#define LOAD_HEAD CONCAT(vload, HEAD_VECTOR)
#define SUM_GROUP CONCAT(sum_, KV_GROUP)
#define MAX_GROUP CONCAT(max_, KV_GROUP)
#define EXP_GROUP CONCAT(exp_nonpositive_, KV_GROUP)
#if KV_GROUP == 8
#define LANES (int8)(0, 1, 2, 3, 4, 5, 6, 7)
#else
#define LANES (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#endif
// The first token that a query sees; the lanes of a group that it does not see, `seen` being its position in the group.
#if WINDOW
#define FIRST_SEEN(position) max((position) - (WINDOW - 1), 0)
#define UNSEEN(seen) ((LANES > (seen)) | (LANES <= (seen) - WINDOW))
#else
#define FIRST_SEEN(position) 0
#define UNSEEN(seen) (LANES > (seen))
#endif

// The weights of a group's tokens as its HEAD_VECTOR numbers i are multiplied by them.
static const float* scale_weights(const float* weights, int i, __global const uchar* values, float* scaled)
{
#if KV_TYPE == TYPE_Q8_0
  CONCAT(vstore, KV_GROUP)(CONCAT(vload, KV_GROUP)(0, weights) * LOAD_SCALES(i * HEAD_VECTOR / 32, values), 0, scaled);
  return scaled;
#else
  return weights;
#endif
}

// Running result of one query.
typedef struct {
  float largest, total;
  float sum[HEAD_SIZE];
} Softmax;

static void merge_partition(Softmax* to, float largest, float total, const float* sum)
{
  const float both = fmax(to->largest, largest);
  const float old = exp_nonpositive_1(to->largest - both), new = exp_nonpositive_1(largest - both);
  to->largest = both;
  to->total = to->total * old + total * new;
  for (int i = 0; i < HEAD_SIZE; i++) to->sum[i] = to->sum[i] * old + sum[i] * new;
}

// K or V of a group of tokens. Blocks lie scattered, so that the processor does not find the next one by itself.
static void prefetch_group(__global const uchar* from)
{
  for (int at = 0; at < KV_GROUP_BYTES; at += 64) prefetch_line(from + at);
}

// K of the group that begins with `token`; V of the same is KV_HALF_BYTES behind it.
static __global const uchar* kv_group(const Memory* memory, __global const int* table, int token, int layer, int group)
{
  return kv_block(memory, table[token / BLOCK_TOKENS], layer, group) + token % BLOCK_TOKENS * KV_HEAD_BYTES;
}

// N queries over one partition; positions rise with q. results[q] = (a, m, l).
//   GROUPS groups of tokens and PARTS parts of a head are computed at a time, so that few queries fill the pipeline, too; what
//   is left over is computed again with the last one. A number's own sum does not depend on either.
// REQUIRES: at least one token of the partition is seen by each. ENSURES: values outside what is seen are not used, nor
//   blocks in which nothing is seen.
#define HEAD_PARTS (HEAD_SIZE / HEAD_VECTOR)
#define EACH(i, COUNT) _Pragma("unroll") for (int i = 0; i < COUNT; i++)
#define DEFINE_PARTITION(N, GROUPS, PARTS)                                                                             \
  static void partition_##N(const Memory* memory, __global const int* table, int layer, int group, int partition,      \
                            const float* query, const int* position, float* sums, float* largests, float* totals)      \
  {                                                                                                                    \
    const int begin = partition * PARTITION;                                                                           \
    const int first = max(FIRST_SEEN(position[0]) - begin, 0), first_group = first / KV_GROUP;                         \
    const int count = min(position[N - 1] + 1 - begin, PARTITION);                                                     \
    const int groups = (count + KV_GROUP - 1) / KV_GROUP;                                                              \
    float weights[N][PARTITION];                                                                                       \
    KV_FLOATS most[N];                                                                                                 \
    EACH(q, N) most[q] = -INFINITY;                                                                                    \
    for (int t = first_group; t < groups; t += GROUPS) {                                                               \
      __global const uchar* keys[GROUPS];                                                                              \
      KV_FLOATS score[GROUPS][N];                                                                                      \
      EACH(u, GROUPS) {                                                                                                \
        keys[u] = kv_group(memory, table, begin + min(t + u, groups - 1) * KV_GROUP, layer, group);                    \
        if (GROUPS > 1) {                                                                                              \
          prefetch_group(keys[u] + KV_HALF_BYTES);                                                                     \
          prefetch_group(kv_group(memory, table, begin + min(t + u + GROUPS, groups - 1) * KV_GROUP, layer, group));   \
        }                                                                                                              \
        EACH(q, N) score[u][q] = 0.0f;                                                                                 \
      }                                                                                                                \
      for (int i0 = 0; i0 < HEAD_SIZE; i0 += KEY_PART) {                                                               \
        KV_FLOATS sum[GROUPS][N];                                                                                      \
        EACH(u, GROUPS) EACH(q, N) sum[u][q] = 0.0f;                                                                   \
        for (int i = 0; i < KEY_PART; i++) {                                                                           \
          EACH(u, GROUPS) {                                                                                            \
            const KV_FLOATS k = LOAD_K(i, keys[u]);                                                                    \
            EACH(q, N) sum[u][q] = fma(k, (KV_FLOATS)(query[q * HEAD_SIZE + i0 + i]), sum[u][q]);                      \
          }                                                                                                            \
        }                                                                                                              \
        EACH(u, GROUPS) {                                                                                              \
          EACH(q, N) score[u][q] = END_PART(sum[u][q], score[u][q], keys[u]);                                          \
          keys[u] += PART_BYTES;                                                                                       \
        }                                                                                                              \
      }                                                                                                                \
      EACH(u, GROUPS) {                                                                                                \
        const int at = min(t + u, groups - 1);                                                                         \
        EACH(q, N) {                                                                                                   \
          const KV_INTS seen = (KV_INTS)(position[q] - begin - at * KV_GROUP);                                         \
          score[u][q] = select(score[u][q], (KV_FLOATS)(-INFINITY), UNSEEN(seen));                                     \
          most[q] = fmax(most[q], score[u][q]);                                                                        \
          CONCAT(vstore, KV_GROUP)(score[u][q], at, weights[q]);                                                       \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
    EACH(q, N) {                                                                                                       \
      const float largest = MAX_GROUP(most[q]);                                                                        \
      KV_FLOATS total = 0.0f;                                                                                          \
      for (int t = first_group; t < groups; t++) {                                                                     \
        const KV_FLOATS score = CONCAT(vload, KV_GROUP)(t, weights[q]);                                                \
        const KV_FLOATS p = select(EXP_GROUP(score - largest), (KV_FLOATS)(0.0f), score == (KV_FLOATS)(-INFINITY));    \
        total += p;                                                                                                    \
        CONCAT(vstore, KV_GROUP)(p, t, weights[q]);                                                                    \
      }                                                                                                                \
      largests[q] = largest;                                                                                           \
      totals[q] = SUM_GROUP(total);                                                                                    \
    }                                                                                                                  \
    for (int part = 0; part < HEAD_PARTS; part += PARTS) {                                                             \
      HEAD_FLOATS sum[PARTS][N];                                                                                       \
      EACH(p, PARTS) EACH(q, N) sum[p][q] = 0.0f;                                                                      \
      for (int t = first_group; t < groups; t++) {                                                                     \
        __global const uchar* values =                                                                                 \
            kv_group(memory, table, begin + t * KV_GROUP, layer, group) + KV_HALF_BYTES;                               \
        float scaled[PARTS][N][KV_GROUP];                                                                              \
        const float* weight[PARTS][N];                                                                                 \
        EACH(p, PARTS) EACH(q, N) {                                                                                    \
          const int i = min(part + p, HEAD_PARTS - 1);                                                                 \
          weight[p][q] = scale_weights(weights[q] + t * KV_GROUP, i, values, scaled[p][q]);                            \
        }                                                                                                              \
        const int end = min(count - t * KV_GROUP, KV_GROUP);                                                           \
        for (int j = max(first - t * KV_GROUP, 0); j < end; j++) {                                                     \
          EACH(p, PARTS) {                                                                                             \
            const HEAD_FLOATS v = LOAD_V(min(part + p, HEAD_PARTS - 1), j, values);                                    \
            EACH(q, N) sum[p][q] = fma(v, (HEAD_FLOATS)(weight[p][q][j]), sum[p][q]);                                  \
          }                                                                                                            \
        }                                                                                                              \
      }                                                                                                                \
      EACH(p, PARTS) EACH(q, N) STORE_HEAD(sum[p][q], min(part + p, HEAD_PARTS - 1), sums + q * HEAD_SIZE);            \
    }                                                                                                                  \
  }
#if QUERY_TILE == 1
DEFINE_PARTITION(1, 1, 1)
#else
DEFINE_PARTITION(1, 4, 4)
DEFINE_PARTITION(2, 4, 4)
DEFINE_PARTITION(3, 2, 4)
DEFINE_PARTITION(4, 2, 2)
DEFINE_PARTITION(8, 1, 2)
#endif

static void attention_item(const Memory* memory, __global const AttentionArgs* args, int item)
{
  __global const int* work = memory->step + args->list + item * 8;
  const int first_row = work[0], queries = work[1] * SHARED_HEADS, group = work[2], first_partition = work[3];
  const int end_partition = work[4], partial = work[5], row_partitions = work[6];
  __global const int* table = memory->step + memory->step[args->tables + first_row];
  for (int q0 = 0; q0 < queries; q0 += QUERIES_MAX) {
    const int count = min(queries - q0, QUERIES_MAX);
    float query[QUERIES_MAX * HEAD_SIZE];
    int position[QUERIES_MAX];
    Softmax state[QUERIES_MAX];
    for (int q = 0; q < count; q++) {
      const int row = first_row + (q0 + q) / SHARED_HEADS, head = group * SHARED_HEADS + (q0 + q) % SHARED_HEADS;
      __global const float* from = memory->act + args->query + ((size_t)row * HEADS + head) * HEAD_SIZE;
      for (int i = 0; i < HEAD_SIZE; i++) query[q * HEAD_SIZE + i] = from[i] * QUERY_SCALE;
      position[q] = memory->step[args->positions + row];
      state[q].largest = -INFINITY;
      state[q].total = 0.0f;
      for (int i = 0; i < HEAD_SIZE; i++) state[q].sum[i] = 0.0f;
    }
    for (int partition = first_partition; partition < end_partition; partition++) {
      int q = 0, end = count;  // positions rise with the rows
      while (q < count && position[q] < partition * PARTITION) q++;
      while (end > q && FIRST_SEEN(position[end - 1]) >= (partition + 1) * PARTITION) end--;
      while (q < end) {
        const int left = end - q, tile = QUERY_TILE == 1 ? 1 : left >= 8 ? 8 : min(left, 4);
        float sums[QUERY_TILE * HEAD_SIZE], largests[QUERY_TILE], totals[QUERY_TILE];
        const float* from = query + q * HEAD_SIZE;
        switch (tile) {
          case 1:
            partition_1(memory, table, args->layer, group, partition, from, position + q, sums, largests, totals);
            break;
#if QUERY_TILE > 1
          case 2:
            partition_2(memory, table, args->layer, group, partition, from, position + q, sums, largests, totals);
            break;
          case 3:
            partition_3(memory, table, args->layer, group, partition, from, position + q, sums, largests, totals);
            break;
          case 4:
            partition_4(memory, table, args->layer, group, partition, from, position + q, sums, largests, totals);
            break;
          default:
            partition_8(memory, table, args->layer, group, partition, from, position + q, sums, largests, totals);
#endif
        }
        for (int t = 0; t < tile; t++, q++) {
          if (partial < 0) {
            merge_partition(&state[q], largests[t], totals[t], sums + t * HEAD_SIZE);
            continue;
          }
          __global float* to = memory->act + args->partials +
                               (size_t)(partial + (q0 + q) * row_partitions + partition - work[7]) * PARTIAL_WORDS;
          for (int i = 0; i < HEAD_SIZE; i++) to[i] = sums[t * HEAD_SIZE + i];
          to[HEAD_SIZE] = largests[t];
          to[HEAD_SIZE + 1] = totals[t];
        }
      }
    }
    if (partial >= 0) continue;
    for (int q = 0; q < count; q++) {
      const int row = first_row + (q0 + q) / SHARED_HEADS, head = group * SHARED_HEADS + (q0 + q) % SHARED_HEADS;
      __global float* to = memory->act + args->out + ((size_t)row * HEADS + head) * HEAD_SIZE;
      const float scale = 1.0f / state[q].total;
      for (int i = 0; i < HEAD_SIZE; i++) to[i] = state[q].sum[i] * scale;
    }
  }
}

// Merges the partitions of rows that were split (list: 2 ints a row: partial slot of its head 0 or -1, partitions) and
// writes the next layer's int8 rows. Item = (row, slice); slices are KV heads where these are whole blocks of 32.
#define COMBINE_SLICES ((SHARED_HEADS * HEAD_SIZE) % 32 == 0 ? KV_HEADS : 1)
static void combine_item(const Memory* memory, __global const CombineArgs* args, int item)
{
  const int row = item / COMBINE_SLICES, slice = item % COMBINE_SLICES, heads = HEADS / COMBINE_SLICES;
  const int partial = memory->step[args->list + 2 * row], partitions = memory->step[args->list + 2 * row + 1];
  __global float* out = memory->act + args->in + (size_t)row * (HEADS * HEAD_SIZE);
  for (int head = slice * heads; partial >= 0 && head < (slice + 1) * heads; head++) {
    Softmax state;
    state.largest = -INFINITY;
    state.total = 0.0f;
    for (int i = 0; i < HEAD_SIZE; i++) state.sum[i] = 0.0f;
    for (int partition = 0; partition < partitions; partition++) {
      __global const float* from =
          memory->act + args->partials + (size_t)(partial + head * partitions + partition) * PARTIAL_WORDS;
      float sum[HEAD_SIZE];
      for (int i = 0; i < HEAD_SIZE; i++) sum[i] = from[i];
      merge_partition(&state, from[HEAD_SIZE], from[HEAD_SIZE + 1], sum);
    }
    const float scale = 1.0f / state.total;
    for (int i = 0; i < HEAD_SIZE; i++) out[head * HEAD_SIZE + i] = state.sum[i] * scale;
  }
  if (args->out.bytes < 0) return;
  for (int column = slice * heads * HEAD_SIZE; column < (slice + 1) * heads * HEAD_SIZE; column += 32) {
    write_block(memory, &args->out, args->rows, row, column, HEADS * HEAD_SIZE, vload16(0, out + column),
                vload16(1, out + column));
  }
}
