// SPDX-License-Identifier: Apache-2.0
// attention.cl: rows of queries attend to their sequence's paged K and V; decode and prefill alike.
//   out[t, h, :] = sum_j softmax_j(q[t, h, :] . K[j, g, :] / sqrt(D)) V[j, g, :],  g = h / (H/G), 0 <= j <= position[t];
//   with a sliding window of W tokens, j > position[t] - W, too; with -D ATTENTION_SOFTCAP=c scores s become c tanh(s / c).
//   With sinks a head's softmax has one more score, sinks[h], whose V is 0: it comes behind all partitions.
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
//   -D HEADS, KV_HEADS, HEAD_SIZE, BLOCK_TOKENS, KV_GROUP (tokens side by side in K: 8 or 16), WINDOW (W, 0 = none; with
//   LOCAL_WINDOWS=1 the variable `window`, the layer's own), SMALL_ITEMS; with LOCAL_KV_HEADS=1 G is the layer's own, and
//   KV_HEADS that of layers that are not local, which tiles are cut for.
//   Tolerance vs f64: 2e-5 (f32 storage). Test: tests/kernel/attention_test.cpp.
//   This file: what all numbers of K and V have in common. Then comes attention_floats.cl or attention_ints.cl, how they are
//   multiplied, then attention_item.cl, the tiles and items.
// Source: Milakov and Gimelshein 2018 (online softmax), Kwon et al. 2023 (paged attention).

#define PARTITION 256
#define SHARED_HEADS (HEADS / KV_HEADS)
#define SHARED_HEADS_OF(args) (HEADS / KV_HEADS_OF(args))
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
#define QUERY_TILE (FEW_REGISTERS ? 6 : SHARED_HEADS > 12 ? 12 : 12 / SHARED_HEADS * SHARED_HEADS)
#define QUERIES_MAX 60  // of one pass; an item's are rows * SHARED_HEADS, or SHARED_HEADS if that is more
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
#define STORE_HEAD CONCAT(vstore, HEAD_VECTOR)
#define MAX_TOKENS CONCAT(max_, TOKEN_VECTOR)
#define EXP_TOKENS CONCAT(exp_nonpositive_, TOKEN_VECTOR)
#if TOKEN_VECTOR == 8
#define LANES (int8)(0, 1, 2, 3, 4, 5, 6, 7)
#else
#define LANES (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#endif
// Declares the variable that WINDOW is with LOCAL_WINDOWS.
#if LOCAL_WINDOWS
#define TAKE_WINDOW(from) const int window = (from)->window;
#else
#define TAKE_WINDOW(from)
#endif
// The first token that a query sees; the lanes of a vector that it does not see, `seen` being its position in the vector.
#if WINDOW || LOCAL_WINDOWS
#define FIRST_SEEN(position) max((position) - (WINDOW - 1), 0)
#define UNSEEN(seen) ((LANES > (seen)) | (LANES <= (seen) - WINDOW))
#define SEES(position, token) ((token) <= (position) && (token) > (position) - WINDOW)
#else
#define FIRST_SEEN(position) 0
#define UNSEEN(seen) (LANES > (seen))
#define SEES(position, token) ((token) <= (position))
#endif

#ifdef ATTENTION_SOFTCAP
#define CAPPED_SCORES(scores) CONCAT(soft_capped_, TOKEN_VECTOR)(scores, ATTENTION_SOFTCAP)
#define CAPPED_SCORE(score) soft_capped_1(score, ATTENTION_SOFTCAP)
#else
#define CAPPED_SCORES(scores) (scores)
#define CAPPED_SCORE(score) (score)
#endif

// Running result of one query. Before its first partition `total` is below 0 and the rest not set. (`largest` tells nothing: it
// is -INFINITY, too, of a partition whose scores are all NaN.)
typedef struct {
  float largest, total;
  float sum[HEAD_SIZE];
} Softmax;

// Makes largest and total those of two partitions; what the sum of each has to be multiplied by before they are added.
static float2 merge_factors(float* largest, float* total, float other_largest, float other_total)
{
  const float both = fmax(*largest, other_largest);
  const float2 factors = (float2)(exp_nonpositive_1(*largest - both), exp_nonpositive_1(other_largest - both));
  *largest = both;
  *total = *total * factors.x + other_total * factors.y;
  return factors;
}

static void merge_partition(Softmax* to, float largest, float total, const float* sum)
{
  if (to->total < 0.0f) {
    to->largest = largest;
    to->total = total;
    for (int i = 0; i < HEAD_SIZE; i++) to->sum[i] = sum[i];
    return;
  }
  const float2 factors = merge_factors(&to->largest, &to->total, largest, total);
  for (int i = 0; i < HEAD_SIZE; i++) to->sum[i] = to->sum[i] * factors.x + sum[i] * factors.y;
}

// What a head's sum is multiplied by in the end.
static float end_factor(const Memory* memory, int sinks, int head, float largest, float total)
{
  if (sinks < 0) return 1.0f / total;
  const float2 factors = merge_factors(&largest, &total, memory->vectors[sinks + head], 1.0f);
  return factors.x / total;
}

// A partition's tokens as vectors: those of a group, and of the group t / GROUP_VECTORS the lane that vector t begins with.
#define GROUP_VECTORS (KV_GROUP / TOKEN_VECTOR)
#define VECTORS_MAX (PARTITION / TOKEN_VECTOR)
#define FIRST_LANE(t) ((t) % GROUP_VECTORS * TOKEN_VECTOR)

// Where the groups of a partition lie: at[t] is K of group t, V is KV_HALF_BYTES behind it; then the first groups of the next
// partition. Of groups that begin after token `last` it is the one of `last`.
#define GROUPS_MAX (PARTITION / KV_GROUP)
#define GROUPS_AHEAD 4
static void find_groups(const Memory* memory, __global const int* table, int unit, int begin, int last,
                        __global const uchar** at)
{
  for (int t = 0; t < GROUPS_MAX + GROUPS_AHEAD; t++) {
    const int token = min(begin + t * KV_GROUP, last / KV_GROUP * KV_GROUP);
    at[t] = kv_unit(memory, table[token / BLOCK_TOKENS] + unit) + token % BLOCK_TOKENS * KV_HEAD_BYTES;
  }
}

// What is read GROUPS_AHEAD groups after K, or V, of group t of `groups`: first all K, then all V, both from group `first` on,
// then K of the next partition. Blocks lie scattered, so that the processor does not find the next one by itself.
static __global const uchar* after_keys(__global const uchar* const* at, int t, int first, int groups)
{
  t += GROUPS_AHEAD;
  return t < groups ? at[t] : at[min(first + t - groups, groups - 1)] + KV_HALF_BYTES;
}
static __global const uchar* after_values(__global const uchar* const* at, int t, int groups)
{
  t += GROUPS_AHEAD;
  return t < groups ? at[t] + KV_HALF_BYTES : at[GROUPS_MAX + t - groups];
}

#define HEAD_PARTS (HEAD_SIZE / HEAD_VECTOR)
// Sum over a group's tokens; its order is that of their lanes, whatever the vectors' size.
#if GROUP_VECTORS == 1
#define SUM_GROUP(sums) CONCAT(sum_, KV_GROUP)(sums[0])
#else
#define SUM_GROUP(sums) sum_8(sums[0] + sums[1])
#endif

// exp(score - largest); 0 of what is not seen.
static TOKEN_FLOATS exponential(TOKEN_FLOATS score, float largest)
{
  return select(EXP_TOKENS(score - largest), (TOKEN_FLOATS)(0.0f), score == (TOKEN_FLOATS)(-INFINITY));
}
