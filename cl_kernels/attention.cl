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
//   Mapping: item = work-list entry; tiles of up to QUERY_TILE queries share each K and V that is loaded: the heads of
//   a group, and in a prompt several rows. Where it decodes, each number of K and V is so read once.
//   -D HEADS, KV_HEADS, HEAD_SIZE, BLOCK_TOKENS, KV_GROUP (tokens side by side in K: 8 or 16), WINDOW (W, 0 = none),
//   SMALL_ITEMS. Tolerance vs f64: 2e-5 (f32 storage). Test: tests/kernel/attention_test.cpp.
// Source: Milakov and Gimelshein 2018 (online softmax), Kwon et al. 2023 (paged attention).

#define PARTITION 256
#define SHARED_HEADS (HEADS / KV_HEADS)
// AVX without AVX-512: 16 registers of 8 numbers.
#if defined(__AVX__) && !defined(__AVX512F__)
#define FEW_REGISTERS 1
#else
#define FEW_REGISTERS 0
#endif
#if SMALL_ITEMS  // one query at a time: where many work-items are resident, each one's private memory is reserved
#define QUERY_TILE 1
#define QUERIES_MAX 1
#else
#define QUERY_TILE (FEW_REGISTERS ? 6 : 8)
#define QUERIES_MAX 64  // of one pass; an item's are rows * SHARED_HEADS, or SHARED_HEADS if that is more
#endif
// Computed side by side: tokens of K, numbers of a head of V.
#if FEW_REGISTERS
#define TOKEN_VECTOR 8
#else
#define TOKEN_VECTOR KV_GROUP
#endif
#if HEAD_SIZE % 16 == 0 && !FEW_REGISTERS
#define HEAD_VECTOR 16
#elif HEAD_SIZE % 8 == 0
#define HEAD_VECTOR 8
#elif HEAD_SIZE % 4 == 0
#define HEAD_VECTOR 4
#else
#define HEAD_VECTOR 2
#endif
#define PARTIAL_WORDS (HEAD_SIZE + 2)

#define EACH(i, COUNT) _Pragma("unroll") for (int i = 0; i < COUNT; i++)
#define CONCAT_(a, b) a##b
#define CONCAT(a, b) CONCAT_(a, b)
#define TOKEN_FLOATS CONCAT(float, TOKEN_VECTOR)
#define TOKEN_INTS CONCAT(int, TOKEN_VECTOR)
#define HEAD_FLOATS CONCAT(float, HEAD_VECTOR)
// Of a K group: number i of its tokens from lane `from` on, within a part of KEY_PART numbers at `p` that is PART_BYTES long.
// END_PART adds a part's sum to a score. Of a V group: HEAD_VECTOR numbers i of token j.
#if KV_TYPE == TYPE_Q8_0
#define KEY_PART 32
#define PART_BYTES (34 * KV_GROUP)
#define LOAD_K(i, from, p) CONCAT(load_bytes_, TOKEN_VECTOR)((__global const char*)(p) + KV_SCALE_BYTES + (i) * KV_GROUP + (from))
#define END_PART(sum, score, from, p) fma(sum, LOAD_SCALES(0, from, p), score)
#define LOAD_SCALES(i, from, p) CONCAT(load_halves_, TOKEN_VECTOR)((__global const half*)(p) + (i) * KV_GROUP + (from))
#define VALUES(p) ((__global const char*)(p) + HEAD_SIZE / 32 * KV_SCALE_BYTES)
#define LOAD_V(i, j, p) CONCAT(load_bytes_, HEAD_VECTOR)(VALUES(p) + (j) * HEAD_SIZE + (i) * HEAD_VECTOR)
#else
#define KEY_PART HEAD_SIZE
#define PART_BYTES KV_GROUP_BYTES
#define END_PART(sum, score, from, p) (sum)
#if KV_TYPE == TYPE_F16
#define LOAD_K(i, from, p) CONCAT(load_halves_, TOKEN_VECTOR)((__global const half*)(p) + (i) * KV_GROUP + (from))
#define LOAD_V(i, j, p) CONCAT(load_halves_, HEAD_VECTOR)((__global const half*)(p) + (j) * HEAD_SIZE + (i) * HEAD_VECTOR)
#else
#define LOAD_K(i, from, p) CONCAT(vload, TOKEN_VECTOR)(0, (__global const float*)(p) + (i) * KV_GROUP + (from))
#define LOAD_V(i, j, p) CONCAT(vload, HEAD_VECTOR)(i, (__global const float*)(p) + (j) * HEAD_SIZE)
#endif
#endif
#define load_halves_2(p) vload_half2(0, p)
#define load_halves_4(p) vload_half4(0, p)
#define load_halves_8(p) vload_half8(0, p)
#define load_bytes_2(p) convert_float2(vload2(0, p))
#define load_bytes_4(p) convert_float4(vload4(0, p))
#define load_bytes_8(p) convert_float8(vload8(0, p))
// One load at any address (PoCL's vload16 of bytes takes eight).
typedef char16 __attribute__((aligned(1))) char16_anywhere;
#define load_bytes_16(p) convert_float16(*(__global const char16_anywhere*)(p))
#define STORE_HEAD CONCAT(vstore, HEAD_VECTOR)
#define MAX_TOKENS CONCAT(max_, TOKEN_VECTOR)
#define EXP_TOKENS CONCAT(exp_nonpositive_, TOKEN_VECTOR)
#if TOKEN_VECTOR == 8
#define LANES (int8)(0, 1, 2, 3, 4, 5, 6, 7)
#else
#define LANES (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#endif
// The first token that a query sees; the lanes of a vector that it does not see, `seen` being its position in the vector.
#if WINDOW
#define FIRST_SEEN(position) max((position) - (WINDOW - 1), 0)
#define UNSEEN(seen) ((LANES > (seen)) | (LANES <= (seen) - WINDOW))
#define SEES(position, token) ((token) <= (position) && (token) > (position) - WINDOW)
#else
#define FIRST_SEEN(position) 0
#define UNSEEN(seen) (LANES > (seen))
#define SEES(position, token) ((token) <= (position))
#endif

// The weights of vector t's tokens; for q8_0 as the 32 numbers with number HEAD_VECTOR * i of V are multiplied by them.
#if KV_TYPE == TYPE_Q8_0
#define SCALE_BLOCKS(PARTS) (((PARTS) * HEAD_VECTOR + 31) / 32)
#define SCALE_BLOCK(p) ((p) * HEAD_VECTOR / 32)
#define DEFINE_SCALED(N, PARTS)                                                                                        \
  TOKEN_FLOATS scaled[SCALE_BLOCKS(PARTS)][N];                                                                         \
  EACH(p, PARTS) {                                                                                                     \
    const int block = min(part + p, HEAD_PARTS - 1) * HEAD_VECTOR / 32;                                                \
    EACH(q, N) scaled[SCALE_BLOCK(p)][q] = weights[q][t] * LOAD_SCALES(block, lane, values);                           \
  }
#define WEIGHT(q, p, j) ((const float*)&scaled[SCALE_BLOCK(p)][q])[j]
#else
#define DEFINE_SCALED(N, PARTS)
#define WEIGHT(q, p, j) ((const float*)&weights[q][t])[j]
#endif

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

// A partition's tokens as vectors: those of a group, and of the group t / GROUP_VECTORS the lane that vector t begins with.
#define GROUP_VECTORS (KV_GROUP / TOKEN_VECTOR)
#define VECTORS_MAX (PARTITION / TOKEN_VECTOR)
#define FIRST_LANE(t) ((t) % GROUP_VECTORS * TOKEN_VECTOR)

// Where the groups of a partition lie: at[t] is K of group t, V is KV_HALF_BYTES behind it; then the first groups of the next
// partition. Of groups that begin after token `last` it is the one of `last`.
#define GROUPS_MAX (PARTITION / KV_GROUP)
#define GROUPS_AHEAD 4
static void find_groups(const Memory* memory, __global const int* table, int layer, int group, int begin, int last,
                        __global const uchar** at)
{
  for (int t = 0; t < GROUPS_MAX + GROUPS_AHEAD; t++) {
    const int token = min(begin + t * KV_GROUP, last / KV_GROUP * KV_GROUP);
    at[t] = kv_block(memory, table[token / BLOCK_TOKENS], layer, group) + token % BLOCK_TOKENS * KV_HEAD_BYTES;
  }
}

// What is read GROUPS_AHEAD groups after K, or V, of group t of `groups`: first all K, then all V, then K of the next partition.
// Blocks lie scattered, so that the processor does not find the next one by itself.
static __global const uchar* after_keys(__global const uchar* const* at, int t, int groups)
{
  t += GROUPS_AHEAD;
  return t < groups ? at[t] : at[min(t - groups, groups - 1)] + KV_HALF_BYTES;
}
static __global const uchar* after_values(__global const uchar* const* at, int t, int groups)
{
  t += GROUPS_AHEAD;
  return t < groups ? at[t] + KV_HALF_BYTES : at[GROUPS_MAX + t - groups];
}

// The scores' exponentials over `largest`, their sum; vectors of groups [first, end). The order of the sum is that of a group's
// lanes, whatever the vectors' size.
#if GROUP_VECTORS == 1
#define SUM_GROUP(sums) CONCAT(sum_, KV_GROUP)(sums[0])
#else
#define SUM_GROUP(sums) sum_8(sums[0] + sums[1])
#endif
static float exponentials(TOKEN_FLOATS* scores, int first, int end, float largest)
{
  TOKEN_FLOATS total[GROUP_VECTORS];
  EACH(u, GROUP_VECTORS) total[u] = 0.0f;
  for (int t = first * GROUP_VECTORS; t < end * GROUP_VECTORS; t += GROUP_VECTORS) {
    EACH(u, GROUP_VECTORS) {
      const TOKEN_FLOATS score = scores[t + u];
      const TOKEN_FLOATS p = select(EXP_TOKENS(score - largest), (TOKEN_FLOATS)(0.0f), score == (TOKEN_FLOATS)(-INFINITY));
      total[u] += p;
      scores[t + u] = p;
    }
  }
  return SUM_GROUP(total);
}

// N queries over one partition; positions rise with q. results[q] = (a, m, l).
//   VECTORS vectors of tokens and PARTS parts of a head are computed at a time, so that few queries fill the pipeline, too, and
//   the sums fit in registers; what is left over is computed again with the last one. A number's own sum depends on neither.
// REQUIRES: at least one token of the partition is seen by each. ENSURES: values outside what is seen are not used, nor
//   blocks in which nothing is seen.
#define HEAD_PARTS (HEAD_SIZE / HEAD_VECTOR)
#define PART_LINES(PARTS) (((PARTS) * HEAD_VECTOR * (KV_HEAD_BYTES / HEAD_SIZE) + 63) / 64)  // cache lines of a token's V
// So many numbers of a vector of keys to each line that is asked for.
#define NUMBERS_A_LINE (FEW_REGISTERS && HEAD_SIZE % 4 == 0 ? 4 : 1)
// Of vector t: its tokens j that anybody sees, times their weights, to those queries q that the condition IF holds for.
#define ADD_VALUES(N, PARTS, IF)                                                                                       \
  for (int j = max(first - t * TOKEN_VECTOR, 0); j < end; j++) {                                                       \
    EACH(line, PART_LINES(PARTS)) prefetch_line(ahead + (lane + j) * KV_HEAD_BYTES + 64 * line);                       \
    HEAD_FLOATS v[PARTS];                                                                                              \
    EACH(p, PARTS) v[p] = LOAD_V(min(part + p, HEAD_PARTS - 1), lane + j, values);                                     \
    EACH(q, N) {                                                                                                       \
      IF EACH(p, PARTS) {                                                                                              \
        sum[p][q] = fma(v[p], (HEAD_FLOATS)(WEIGHT(q, p, j)), sum[p][q]);                                              \
      }                                                                                                                \
    }                                                                                                                  \
  }
#define DEFINE_PARTITION(NAME, N, VECTORS, PARTS)                                                                      \
  static void NAME(__global const uchar* const* at, int partition, const float* query, const int* position,            \
                   float* sums, float* largests, float* totals)                                                        \
  {                                                                                                                    \
    const int begin = partition * PARTITION, last = position[N - 1];                                                   \
    const int first = max(FIRST_SEEN(position[0]) - begin, 0), first_group = first / KV_GROUP;                         \
    const int count = min(last + 1 - begin, PARTITION);                                                                \
    const int groups = (count + KV_GROUP - 1) / KV_GROUP, vectors = groups * GROUP_VECTORS;                            \
    /* of the partition's tokens those that all see */                                                                 \
    const int all_first = max(FIRST_SEEN(last) - begin, 0), all_count = min(position[0] + 1 - begin, PARTITION);       \
    const int masked = (position[0] + 1 - begin) / TOKEN_VECTOR - VECTORS + 1; /* from here on some do not see all */  \
    TOKEN_FLOATS weights[N][VECTORS_MAX];                                                                              \
    TOKEN_FLOATS most[N];                                                                                              \
    EACH(q, N) most[q] = -INFINITY;                                                                                    \
    for (int t = first_group * GROUP_VECTORS; t < vectors; t += VECTORS) {                                             \
      __global const uchar *keys[VECTORS], *ahead[VECTORS];                                                            \
      TOKEN_FLOATS score[VECTORS][N];                                                                                  \
      EACH(u, VECTORS) {                                                                                               \
        keys[u] = at[min(t + u, vectors - 1) / GROUP_VECTORS];                                                         \
        ahead[u] = after_keys(at, (t + u) / GROUP_VECTORS, groups) + (t + u) % GROUP_VECTORS * (KV_GROUP_BYTES / GROUP_VECTORS); \
        EACH(q, N) score[u][q] = 0.0f;                                                                                 \
      }                                                                                                                \
      for (int i0 = 0; i0 < HEAD_SIZE; i0 += KEY_PART) {                                                               \
        TOKEN_FLOATS sum[VECTORS][N];                                                                                  \
        EACH(u, VECTORS) EACH(q, N) sum[u][q] = 0.0f;                                                                  \
        for (int i = 0; i < KEY_PART; i += NUMBERS_A_LINE) {                                                           \
          EACH(u, VECTORS) prefetch_line(ahead[u] + (i0 + i) * KV_GROUP_BYTES / (HEAD_SIZE * GROUP_VECTORS));          \
          EACH(n, NUMBERS_A_LINE) {                                                                                    \
            TOKEN_FLOATS k[VECTORS];                                                                                   \
            EACH(u, VECTORS) k[u] = LOAD_K(i + n, FIRST_LANE(min(t + u, vectors - 1)), keys[u]);                       \
            EACH(q, N) {                                                                                               \
              const TOKEN_FLOATS number = query[q * HEAD_SIZE + i0 + i + n];                                           \
              EACH(u, VECTORS) sum[u][q] = fma(k[u], number, sum[u][q]);                                               \
            }                                                                                                          \
          }                                                                                                            \
        }                                                                                                              \
        EACH(u, VECTORS) {                                                                                             \
          EACH(q, N) score[u][q] = END_PART(sum[u][q], score[u][q], FIRST_LANE(min(t + u, vectors - 1)), keys[u]);     \
          keys[u] += PART_BYTES;                                                                                       \
        }                                                                                                              \
      }                                                                                                                \
      EACH(u, VECTORS) {                                                                                               \
        const int place = min(t + u, vectors - 1);                                                                     \
        EACH(q, N) {                                                                                                   \
          if (WINDOW || t >= masked) {                                                                                 \
            const TOKEN_INTS seen = (TOKEN_INTS)(position[q] - begin - place * TOKEN_VECTOR);                          \
            score[u][q] = select(score[u][q], (TOKEN_FLOATS)(-INFINITY), UNSEEN(seen));                                \
          }                                                                                                            \
          most[q] = fmax(most[q], score[u][q]);                                                                        \
          weights[q][place] = score[u][q];                                                                             \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
    EACH(q, N) largests[q] = MAX_TOKENS(most[q]);                                                                      \
    for (int q = 0; q < N; q++) totals[q] = exponentials(weights[q], first_group, groups, largests[q]);                \
    for (int part = 0; part < HEAD_PARTS; part += PARTS) {                                                             \
      HEAD_FLOATS sum[PARTS][N];                                                                                       \
      EACH(p, PARTS) EACH(q, N) sum[p][q] = 0.0f;                                                                      \
      for (int t = first_group * GROUP_VECTORS; t < vectors; t++) {                                                    \
        const int group = t / GROUP_VECTORS, lane = FIRST_LANE(t);                                                     \
        __global const uchar* values = at[group] + KV_HALF_BYTES;                                                      \
        __global const uchar* ahead = after_values(at, group, groups) + part * HEAD_VECTOR * (KV_HEAD_BYTES / HEAD_SIZE); \
        DEFINE_SCALED(N, PARTS)                                                                                        \
        const int end = min(count - t * TOKEN_VECTOR, TOKEN_VECTOR);                                                   \
        if (N > 1 && (max(first, t * TOKEN_VECTOR) < all_first || t * TOKEN_VECTOR + end > all_count)) {               \
          ADD_VALUES(N, PARTS, if (SEES(position[q], begin + t * TOKEN_VECTOR + j)))                                   \
        } else {                                                                                                       \
          ADD_VALUES(N, PARTS, )                                                                                       \
        }                                                                                                              \
      }                                                                                                                \
      EACH(p, PARTS) EACH(q, N) STORE_HEAD(sum[p][q], min(part + p, HEAD_PARTS - 1), sums + q * HEAD_SIZE);            \
    }                                                                                                                  \
  }
#if SMALL_ITEMS
DEFINE_PARTITION(partition_1, 1, 1, 1)
#elif FEW_REGISTERS
DEFINE_PARTITION(partition_1, 1, 8, 8)
DEFINE_PARTITION(partition_2, 2, 4, 4)
DEFINE_PARTITION(partition_3, 3, 4, 4)
DEFINE_PARTITION(partition_4, 4, 2, 2)
DEFINE_PARTITION(partition_most, 6, 2, 2)
#else
DEFINE_PARTITION(partition_1, 1, 4, 4)
DEFINE_PARTITION(partition_2, 2, 4, 4)
DEFINE_PARTITION(partition_3, 3, 4, 4)
DEFINE_PARTITION(partition_4, 4, 4, 4)
DEFINE_PARTITION(partition_most, 8, 2, 2)
#if SHARED_HEADS > 4 && SHARED_HEADS < 8
#define HAS_PARTITION_SHARED 1
DEFINE_PARTITION(partition_shared, SHARED_HEADS, 2, 2)
#endif
#endif

// Queries of the next tile, of `left`.
static int tile_of(int left)
{
#if SMALL_ITEMS
  return 1;
#endif
#if HAS_PARTITION_SHARED
  if (left == SHARED_HEADS) return left;
#endif
  return left >= QUERY_TILE ? QUERY_TILE : min(left, 4);
}

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
      __global const uchar* at[GROUPS_MAX + GROUPS_AHEAD];
      find_groups(memory, table, args->layer, group, partition * PARTITION, position[count - 1], at);
      while (q < end) {
        const int left = end - q, tile = tile_of(left);
        float sums[QUERY_TILE * HEAD_SIZE], largests[QUERY_TILE], totals[QUERY_TILE];
        const float* from = query + q * HEAD_SIZE;
        switch (tile) {
          case 1:
            partition_1(at, partition, from, position + q, sums, largests, totals);
            break;
#if !SMALL_ITEMS
          case 2:
            partition_2(at, partition, from, position + q, sums, largests, totals);
            break;
          case 3:
            partition_3(at, partition, from, position + q, sums, largests, totals);
            break;
          case 4:
            partition_4(at, partition, from, position + q, sums, largests, totals);
            break;
#if HAS_PARTITION_SHARED
          case SHARED_HEADS:
            partition_shared(at, partition, from, position + q, sums, largests, totals);
            break;
#endif
          default:
            partition_most(at, partition, from, position + q, sums, largests, totals);
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
// writes the next layer's int8 rows, or else copies the rows that were not split where that is another place.
// Item = (row, slice); slices are KV heads where these are whole blocks of 32.
#define COMBINE_SLICES ((SHARED_HEADS * HEAD_SIZE) % 32 == 0 ? KV_HEADS : 1)
static void combine_item(const Memory* memory, __global const CombineArgs* args, int item)
{
  const int row = item / COMBINE_SLICES, slice = item % COMBINE_SLICES, heads = HEADS / COMBINE_SLICES;
  const int partial = memory->step[args->list + 2 * row], partitions = memory->step[args->list + 2 * row + 1];
  const int begin = slice * heads * HEAD_SIZE, end = begin + heads * HEAD_SIZE;
  const size_t at = (size_t)row * (HEADS * HEAD_SIZE);
  __global float* in = memory->act + args->in + at;
  __global float* out = args->out.floats < 0 ? in : memory->prepared + args->out.floats + at;
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
  __global const float* from = partial < 0 ? in : out;
  if (args->out.bytes < 0) {
    for (int i = begin; from != out && i < end; i++) out[i] = from[i];
    return;
  }
  for (int column = begin; column < end; column += 32) {
    write_bytes(memory->prepared, &args->out, args->rows, row, column, vload16(0, from + column), vload16(1, from + column));
  }
}
