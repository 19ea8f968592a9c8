// SPDX-License-Identifier: Apache-2.0
// attention_item.cl: attention's tiles and items, and merging; contract: attention.cl. How K and V are multiplied comes from
//   attention_floats.cl or attention_ints.cl.
// Test: tests/kernel/attention_test.cpp.

// N queries, q0 and those behind it, over one partition; positions rise with q. results[q] = (a, m, l).
//   VECTORS vectors of tokens and PARTS parts of a head are computed at a time, so that few queries fill the pipeline, too, and
//   the sums fit in registers; what is left over is computed again with the last one. A number's own sum depends on neither.
// REQUIRES: at least one token of the partition is seen by each. ENSURES: values outside what is seen are not used, nor
//   blocks in which nothing is seen.
#define DEFINE_PARTITION(NAME, N, VECTORS, PARTS)                                                                      \
  static void NAME(__global const uchar* const* at, int partition, const Queries* queries, int q0, const int* position, \
                   float* sums, float* largests, float* totals)                                                        \
  {                                                                                                                    \
    const int begin = partition * PARTITION, last = position[N - 1];                                                   \
    TAKE_WINDOW(queries)                                                                                               \
    const int first = max(FIRST_SEEN(position[0]) - begin, 0), first_group = first / KV_GROUP;                         \
    const int count = min(last + 1 - begin, PARTITION);                                                                \
    const int groups = (count + KV_GROUP - 1) / KV_GROUP, vectors = groups * GROUP_VECTORS;                            \
    const int masked = (position[0] + 1 - begin) / TOKEN_VECTOR - VECTORS + 1; /* from here on some do not see all */  \
    const QUERY_NUMBER* numbers = queries->numbers + q0 * HEAD_SIZE;                                                   \
    TOKEN_FLOATS scores[N][VECTORS_MAX];                                                                               \
    TOKEN_FLOATS most[N];                                                                                              \
    EACH(q, N) most[q] = -INFINITY;                                                                                    \
    for (int t = first_group * GROUP_VECTORS; t < vectors; t += VECTORS) {                                             \
      __global const uchar *keys[VECTORS], *ahead[VECTORS];                                                            \
      TOKEN_FLOATS score[VECTORS][N];                                                                                  \
      EACH(u, VECTORS) {                                                                                               \
        keys[u] = at[min(t + u, vectors - 1) / GROUP_VECTORS];                                                         \
        ahead[u] = after_keys(at, (t + u) / GROUP_VECTORS, first_group, groups);                                       \
        ahead[u] += (t + u) % GROUP_VECTORS * (KV_GROUP_BYTES / GROUP_VECTORS);                                        \
        ASK_FOR_SCALES(keys[u], ahead[u]);                                                                             \
        ahead[u] += KEYS_AT;                                                                                           \
        EACH(q, N) score[u][q] = 0.0f;                                                                                 \
      }                                                                                                                \
      for (int i0 = 0; i0 < KEY_STEPS; i0 += KEY_PART) {                                                               \
        KEY_SUMS sum[VECTORS][N];                                                                                      \
        EACH(u, VECTORS) EACH(q, N) sum[u][q] = 0;                                                                     \
        for (int i = 0; i < KEY_PART; i += STEPS_A_LINE) {                                                             \
          EACH(u, VECTORS) ASK_FOR_KV(ahead[u] + (i0 + i) * (KV_GROUP_BYTES - KEYS_AT) / (KEY_STEPS * GROUP_VECTORS)); \
          EACH(n, STEPS_A_LINE) {                                                                                      \
            KEY_SUMS k[VECTORS];                                                                                       \
            EACH(u, VECTORS) k[u] = LOAD_K(i + n, FIRST_LANE(min(t + u, vectors - 1)), keys[u]);                       \
            EACH(q, N) EACH(u, VECTORS) sum[u][q] = ADD_KEY(sum[u][q], k[u], numbers + q * HEAD_SIZE, i0 + i + n);     \
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
          score[u][q] = END_SCORE(score[u][q], queries, q0 + q, FIRST_LANE(place), at[place / GROUP_VECTORS]);         \
          score[u][q] = CAPPED_SCORES(score[u][q]);                                                                    \
          if (WINDOW || t >= masked) {                                                                                 \
            const TOKEN_INTS seen = (TOKEN_INTS)(position[q] - begin - place * TOKEN_VECTOR);                          \
            score[u][q] = select(score[u][q], (TOKEN_FLOATS)(-INFINITY), UNSEEN(seen));                                \
          }                                                                                                            \
          most[q] = fmax(most[q], score[u][q]);                                                                        \
          scores[q][place] = score[u][q];                                                                              \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
    EACH(q, N) largests[q] = MAX_TOKENS(most[q]);                                                                      \
    WEIGH(N)                                                                                                           \
    for (int part = 0; part < HEAD_PARTS; part += PARTS) {                                                             \
      VALUE_SUMS sum[PARTS][N];                                                                                        \
      EACH(p, PARTS) EACH(q, N) sum[p][q] = 0;                                                                         \
      ADD_VALUES(N, PARTS)                                                                                             \
      EACH(p, PARTS) EACH(q, N) STORE_HEAD(VALUE(sum[p][q], q), min(part + p, HEAD_PARTS - 1), sums + q * HEAD_SIZE);  \
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
DEFINE_PARTITION(partition_most, QUERY_TILE, 2, 2)
#if SHARED_HEADS > 4 && SHARED_HEADS < QUERY_TILE
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
  const int shared = SHARED_HEADS_OF(args);
  const int first_row = work[0], query_count = work[1] * shared, group = work[2], first_partition = work[3];
  const int end_partition = work[4], partial = work[5], row_partitions = work[6];
  __global const int* table = memory->step + memory->step[args->tables + first_row];
  TAKE_WINDOW(args)
  for (int q0 = 0; q0 < query_count; q0 += QUERIES_MAX) {
    const int count = min(query_count - q0, QUERIES_MAX);
    Queries queries;
    queries.window = args->window;
    int position[QUERIES_MAX];
    Softmax state[QUERIES_MAX];
    for (int q = 0; q < count; q++) {
      const int row = first_row + (q0 + q) / shared, head = group * shared + (q0 + q) % shared;
      take_query(&queries, q, memory->act + args->query + ((size_t)row * HEADS + head) * HEAD_SIZE);
      position[q] = memory->step[args->positions + row];
      state[q].total = -1.0f;
    }
    for (int partition = first_partition; partition < end_partition; partition++) {
      int q = 0, end = count;  // positions rise with the rows
      while (q < count && position[q] < partition * PARTITION) q++;
      while (end > q && FIRST_SEEN(position[end - 1]) >= (partition + 1) * PARTITION) end--;
      __global const uchar* at[GROUPS_MAX + GROUPS_AHEAD];
      find_groups(memory, table, args->unit + group, partition * PARTITION, position[count - 1], at);
      while (q < end) {
        const int left = end - q, tile = tile_of(left);
        float sums[QUERY_TILE * HEAD_SIZE], largests[QUERY_TILE], totals[QUERY_TILE];
        switch (tile) {
          case 1:
            partition_1(at, partition, &queries, q, position + q, sums, largests, totals);
            break;
#if !SMALL_ITEMS
          case 2:
            partition_2(at, partition, &queries, q, position + q, sums, largests, totals);
            break;
          case 3:
            partition_3(at, partition, &queries, q, position + q, sums, largests, totals);
            break;
          case 4:
            partition_4(at, partition, &queries, q, position + q, sums, largests, totals);
            break;
#if HAS_PARTITION_SHARED
          case SHARED_HEADS:
            partition_shared(at, partition, &queries, q, position + q, sums, largests, totals);
            break;
#endif
          default:
            partition_most(at, partition, &queries, q, position + q, sums, largests, totals);
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
      const int row = first_row + (q0 + q) / shared, head = group * shared + (q0 + q) % shared;
      __global float* to = memory->act + args->out + ((size_t)row * HEADS + head) * HEAD_SIZE;
      const float scale = end_factor(memory, args->sinks, head, state[q].largest, state[q].total);
      for (int i = 0; i < HEAD_SIZE; i++) to[i] = state[q].sum[i] * scale;
    }
  }
}

// Merges the partitions of rows that were split (list: 2 ints a row: partial slot of its head 0 or -1, partitions), multiplies
// by 1 / (1 + exp(-gate)) where there are gates, and writes the next layer's int8 rows, or else copies the rows that were not
// split where that is another place.
// Item = (row, slice); slices are KV heads where these are whole blocks of 32.
#define COMBINE_SLICES ((SHARED_HEADS * HEAD_SIZE) % 32 == 0 ? KV_HEADS : 1)
#define COMBINE_HEADS (HEADS / COMBINE_SLICES)
typedef struct {
  int row, partial, partitions;
  int begin, end;  // the item's columns
  __global float *in, *out;
} CombineWork;
static CombineWork combine_work(const Memory* memory, CombineArgs args, int item)
{
  const int row = item / COMBINE_SLICES, begin = item % COMBINE_SLICES * (COMBINE_HEADS * HEAD_SIZE);
  const size_t at = (size_t)row * (HEADS * HEAD_SIZE);
  __global float* in = memory->act + args.in + at;
  const CombineWork work = {row, memory->step[args.list + 2 * row], memory->step[args.list + 2 * row + 1],
                            begin, begin + COMBINE_HEADS * HEAD_SIZE,
                            in, args.out.floats < 0 ? in : memory->prepared + args.out.floats + at};
  return work;
}

static void combine_item(const Memory* memory, __global const CombineArgs* args, int item)
{
  const CombineWork work = combine_work(memory, *args, item);
  for (int column = work.begin; work.partial >= 0 && column < work.end; column += HEAD_SIZE) {
    Softmax state;
    state.total = -1.0f;
    for (int partition = 0; partition < work.partitions; partition++) {
      const int slot = work.partial + column / HEAD_SIZE * work.partitions + partition;
      __global const float* from = memory->act + args->partials + (size_t)slot * PARTIAL_WORDS;
      float sum[HEAD_SIZE];
      for (int i = 0; i < HEAD_SIZE; i++) sum[i] = from[i];
      merge_partition(&state, from[HEAD_SIZE], from[HEAD_SIZE + 1], sum);
    }
    const float scale = end_factor(memory, args->sinks, column / HEAD_SIZE, state.largest, state.total);
    for (int i = 0; i < HEAD_SIZE; i++) work.out[column + i] = state.sum[i] * scale;
  }
  __global const float* from = work.partial < 0 ? work.in : work.out;
  if (args->gate >= 0) {
    __global const float* gate = memory->act + args->gate + (size_t)work.row * (HEADS * HEAD_SIZE);
    for (int i = work.begin; i < work.end; i += 16) {
      const int left = work.end - i;
      const float16 gated = load_columns(from + i, left, 0.0f) * sigmoid_16(load_columns(gate + i, left, 0.0f));
      store_columns(work.out + i, left, gated, 0);
    }
    from = work.out;
  }
  if (args->out.bytes < 0) {
    for (int i = work.begin; from != work.out && i < work.end; i++) work.out[i] = from[i];
    return;
  }
  for (int column = work.begin; column < work.end; column += 32) {
    write_bytes(memory->prepared, &args->out, args->rows, work.row, column, vload16(0, from + column), vload16(1, from + column));
  }
}
