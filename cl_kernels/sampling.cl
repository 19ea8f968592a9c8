// SPDX-License-Identifier: Apache-2.0
// sampling.cl: logits to the next token; the twin of src/sample/sampler.cpp, bit for bit.
//   statistics: per chunk of STATISTICS_CHUNK logits: m = max, sum of exp(l - m), lowest id of the maximum, count of NaN. With
//     a list: of the rows that are changed alone, where tokens that may not come get -infinity before.
//   sample: temperature 0: the lowest id of the maximum. Else each token weighs w = exp((l - max) / temperature), as an
//     integer W = floor(w * 2^40), so that all sums are exact in any order. Tokens with w < min_p are dropped; of the rest
//     the top_k first are kept, in the order (larger logit, lower id); of those the fewest first whose sum reaches top_p of
//     theirs. Then u in [0, 1) by Philox of (seed, position) picks the first id whose running sum exceeds u * total.
//   change, between: sampling_item.cl.
//   results [S][8]: token, valid; logit of the token, max, sum of exp(l - max) (floats as bits), these of the logits before any
//   change; unused.
//   list, SAMPLE_WORDS ints a sample: device row, position, seed low, seed high, 1/temperature (0: greedy), min_p, top_p
//   (floats as bits), top_k, where the row's changes stand in `step` (-1: none), how many of the largest logits are told,
//   where in `step`: pairs of token and logit (as bits), the largest first, the lower id among equals; the token that is
//   reported, whatever would be drawn (-1: what is drawn).
//   The edges of top_k and top_p are found by histograms: one of all tokens by their distance from the maximum, then of the
//   tokens in the bin with the edge by their bits.
//   Mapping: one item = one chunk of a row; one row. Test: tests/kernel/sampling_test.cpp.

#define STATISTICS_CHUNK 4096
#define SAMPLE_WORDS 12
// Bins change how often the tokens are read, not what is found. COARSE_SCALE: bins a unit of (max - logit) / temperature;
// the weight of the last ones is 0. 20 KB of private memory, or 3 KB where it is reserved for many work-items.
#if SMALL_ITEMS
#define COARSE_BINS 128
#define COARSE_SCALE 4.5f
#define FINE_BITS 6
#else
#define COARSE_BINS 1024
#define COARSE_SCALE 36.0f
#define FINE_BITS 8
#endif

// Whether the item is of a row whose statistics are wanted.
static int is_counted(const Memory* memory, int chunks, int list, int item)
{
  return list < 0 || memory->step[list + item / chunks * SAMPLE_WORDS + 8] >= 0;
}

// Where in `step` the chunk's bits of tokens that may come stand; below 0: all may.
static int allowed_bits(const Memory* memory, int chunks, int list, int item)
{
  if (list < 0) return -1;
  __global const int* head = memory->step + memory->step[list + item / chunks * SAMPLE_WORDS + 8];
  return head[10] && head[12] >= 0 ? head[12] + item % chunks * (STATISTICS_CHUNK / 32) : -1;
}

static void ban_others(__global const int* allowed, __global float* logits, int count)
{
  const int16 lanes = (int16)(1) << (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int i = 0; i < count / 16; i++) {
    const int bits = allowed[i / 2] >> i % 2 * 16 & 0xFFFF;
    if (bits == 0xFFFF) continue;
    vstore16(select((float16)(-INFINITY), vload16(i, logits), ((int16)(bits) & lanes) != 0), i, logits);
  }
  for (int i = count / 16 * 16; i < count; i++) {
    if (!(allowed[i / 32] >> i % 32 & 1)) logits[i] = -INFINITY;
  }
}

static void statistics_item(const Memory* memory, __global const StatisticsArgs* args, int item)
{
  if (!is_counted(memory, args->chunks, args->list, item)) return;
  const int row = item / args->chunks, chunk = item % args->chunks, begin = chunk * STATISTICS_CHUNK;
  const int count = min(args->vocabulary - begin, STATISTICS_CHUNK), whole = count / 16;
  __global float* logits = memory->act + args->logits + (size_t)row * args->vocabulary + begin;
  const int allowed = allowed_bits(memory, args->chunks, args->list, item);
  if (allowed >= 0) ban_others(memory->step + allowed, logits, count);
  float16 most = -INFINITY;
  int16 bad = 0;
  for (int i = 0; i < whole; i++) {
    const float16 v = vload16(i, logits);
    most = fmax(most, v);
    bad -= v != v;
  }
  float16 tail = -INFINITY;
  if (whole * 16 < count) {
    tail = load_columns(logits + whole * 16, count - whole * 16, -INFINITY);
    most = fmax(most, tail);
    bad -= tail != tail;
  }
  const float largest = max_16(most);
  float16 sums = 0.0f;
  int id = -1;
  for (int i = 0; i < whole; i++) {
    const float16 v = vload16(i, logits);
    sums += exp_nonpositive_16(v - largest);
    if (id < 0 && any(v == largest)) {
      for (int j = 15; j >= 0; j--) id = logits[i * 16 + j] == largest ? i * 16 + j : id;
    }
  }
  sums += select(exp_nonpositive_16(tail - largest), (float16)(0.0f), tail == (float16)(-INFINITY));
  for (int i = whole * 16; i < count; i++) id = id < 0 && logits[i] == largest ? i : id;
  const int8 bad8 = bad.lo + bad.hi;
  const int4 bad4 = bad8.lo + bad8.hi;
  __global float* out = memory->act + args->out + (size_t)item * 4;
  out[0] = largest;
  out[1] = sum_16(sums);
  // Whole numbers as such: as floats they would be denormals, which a device may make zero.
  ((__global int*)out)[2] = begin + id;
  ((__global int*)out)[3] = bad4.x + bad4.y + bad4.z + bad4.w;
}

typedef struct {
  __global const float* logits;
  int count;
  float largest, inverse_temperature, min_p;
} Distribution;

static ulong fixed_point(float w) { return (ulong)(w * 1099511627776.0f); }
static ulong token_weight(const Distribution* d, float logit)
{
  const float w = exp_nonpositive_1((logit - d->largest) * d->inverse_temperature);
  return fixed_point(w < d->min_p ? 0.0f : w);
}
// Larger logit, larger key.
static uint order_key(float logit)
{
  const uint bits = as_uint(logit);
  return bits ^ ((bits & 0x80000000u) ? 0xFFFFFFFFu : 0x80000000u);
}

// 16 tokens at once, by the same arithmetic; behind the last token logits are -infinity.
static float16 logits_at(const Distribution* d, int first)
{
  return load_columns(d->logits + first, d->count - first, -INFINITY);
}
static ulong16 token_weights(const Distribution* d, float16 logits)
{
  const float16 w = exp_nonpositive_16((logits - d->largest) * d->inverse_temperature);
  return convert_ulong16(select(w, (float16)(0.0f), w < d->min_p) * 1099511627776.0f);
}
static uint16 order_keys(float16 logits)
{
  const uint16 bits = as_uint16(logits);
  return bits ^ select((uint16)(0x80000000u), (uint16)(0xFFFFFFFFu), as_int16(bits) < 0);
}
// Smaller logit, larger or equal bin.
static int16 coarse_bins(const Distribution* d, float16 logits)
{
  const float16 distance = (d->largest - logits) * d->inverse_temperature;
  return convert_int16(fmin(distance * COARSE_SCALE, (float16)(COARSE_BINS - 1)));
}
static ulong sum_ulongs(ulong16 v)
{
  const ulong8 a = v.lo + v.hi;
  const ulong4 b = a.lo + a.hi;
  const ulong2 c = b.lo + b.hi;
  return c.x + c.y;
}

// Weight (x) and number (y) of tokens. Dropped tokens (min_p, weight below 2^-40) count nothing.
typedef ulong2 Tally;
static Tally tally_of(ulong weight) { return (Tally)(weight, weight != 0 ? 1 : 0); }
static ulong tally_by(Tally tally, int by_mass) { return by_mass ? tally.x : tally.y; }

// Tokens kept: those of larger key, and the first `ties` of key itself; what they weigh.
typedef struct {
  uint key;
  uint ties;
  ulong weight;
} Threshold;

static void coarse_histogram(const Distribution* d, Tally* bins)
{
  for (int i = 0; i < COARSE_BINS; i++) bins[i] = 0;
  for (int first = 0; first < d->count; first += 16) {
    const float16 logits = logits_at(d, first);
    int bin[16];
    ulong weights[16];
    vstore16(coarse_bins(d, logits), 0, bin);
    vstore16(token_weights(d, logits), 0, weights);
    for (int i = 0; i < 16; i++) bins[bin[i]] += tally_of(weights[i]);
  }
}

// The shortest prefix, in the order (larger logit, lower id), whose weight (by_mass 1) or count (by_mass 0) reaches
// `wanted`, at least 1; everything if all together do not.
static Threshold find_threshold(const Distribution* d, const Tally* coarse, int by_mass, ulong wanted)
{
  Tally above = 0;  // of the tokens of larger key
  int edge = 0;
  while (edge < COARSE_BINS && tally_by(above + coarse[edge], by_mass) < wanted) above += coarse[edge++];
  if (edge == COARSE_BINS) return (Threshold){0, 0xFFFFFFFFu, above.x};
  uint16 lows = 0xFFFFFFFFu, highs = 0;
  for (int first = 0; first < d->count; first += 16) {
    const float16 logits = logits_at(d, first);
    const int16 inside = coarse_bins(d, logits) == edge;
    const uint16 keys = order_keys(logits);
    lows = min(lows, select((uint16)(0xFFFFFFFFu), keys, inside));
    highs = max(highs, select((uint16)(0), keys, inside));
  }
  uint low = 0xFFFFFFFFu, high = 0, keys[2][16];
  vstore16(lows, 0, keys[0]);
  vstore16(highs, 0, keys[1]);
  for (int i = 0; i < 16; i++) {
    low = min(low, keys[0][i]);
    high = max(high, keys[1][i]);
  }
  // Among the keys low..high the edge lies; each round leaves one bin of them.
  while (true) {
    const int width = 32 - (int)clz(high - low), shift = max(width - FINE_BITS, 0);
    Tally bins[1 << FINE_BITS];
    for (int i = 0; i < 1 << FINE_BITS; i++) bins[i] = 0;
    for (int first = 0; first < d->count; first += 16) {
      const float16 logits = logits_at(d, first);
      const uint16 below = high - order_keys(logits);
      if (!any(below <= high - low)) continue;
      uint distance[16];
      ulong weights[16];
      vstore16(below, 0, distance);
      vstore16(token_weights(d, logits), 0, weights);
      for (int i = 0; i < 16; i++) {
        if (distance[i] <= high - low) bins[distance[i] >> shift] += tally_of(weights[i]);
      }
    }
    uint bin = 0;
    while (tally_by(above + bins[bin], by_mass) < wanted) above += bins[bin++];  // they do reach it: `coarse` says so
    if (shift == 0) {
      const Tally same = bins[bin];  // of one key: each of the same weight
      const ulong each = same.x / same.y;
      const ulong missing = wanted - tally_by(above, by_mass);
      const ulong ties = by_mass ? (missing + each - 1) / each : missing;
      return (Threshold){high - bin, (uint)ties, above.x + ties * each};
    }
    high -= bin << shift;
    low = max(low, high - min(high, (1u << shift) - 1));
  }
}

// Walks the kept tokens by id: their total weight (limit = all ones), or the first id whose running sum exceeds limit.
static ulong walk_kept(const Distribution* d, Threshold threshold, ulong limit, int* token)
{
  ulong sum = 0;
  uint ties = threshold.ties;
  for (int first = 0; first < d->count; first += 16) {
    const float16 logits = logits_at(d, first);
    const uint16 keys = order_keys(logits);
    if (!any(keys >= threshold.key)) continue;
    if (!any(keys == threshold.key)) {
      const float16 above = select((float16)(-INFINITY), logits, keys > threshold.key);  // weight 0
      const ulong together = sum_ulongs(token_weights(d, above));
      if (sum + together <= limit) {
        sum += together;
        continue;
      }
    }
    for (int i = first; i < min(first + 16, d->count); i++) {  // the limit or ties are here
      const uint key = order_key(d->logits[i]);
      if (key < threshold.key) continue;
      const ulong weight = token_weight(d, d->logits[i]);
      if (weight == 0) continue;
      if (key == threshold.key && ties-- == 0) {
        ties = 0;
        continue;
      }
      sum += weight;
      if (sum > limit) {
        *token = i;
        return sum;
      }
    }
  }
  return sum;
}

static int draw_token(const Distribution* d, __global const int* sample)
{
  const int top_k = sample[7];
  const float top_p = as_float(sample[6]);
  int token = 0;
  Threshold threshold = {0, 0xFFFFFFFFu, 0};
  const int by_count = top_k > 0 && top_k < d->count, by_mass = top_p < 1.0f;
  if (by_count || by_mass) {
    Tally coarse[COARSE_BINS];
    coarse_histogram(d, coarse);
    threshold = find_threshold(d, coarse, 0, by_count ? (ulong)top_k : 0xFFFFFFFFFFFFFFFFul);
    if (by_mass) {
      const ulong share = (ulong)(top_p * 4294967296.0f);
      threshold = find_threshold(d, coarse, 1, max(mul_hi(threshold.weight, share << 32), (ulong)1));
    }
  } else {
    threshold.weight = walk_kept(d, threshold, 0xFFFFFFFFFFFFFFFFul, &token);
  }
  const ulong u = philox_word((uint)sample[1], (uint)sample[2], (uint)sample[3]) >> 8;
  walk_kept(d, threshold, mul_hi(threshold.weight, u << 40), &token);
  return token;
}

// Of a row's chunks together. token: the lowest id of the maximum; 0 where a logit is NaN or the maximum infinite.
typedef struct {
  float largest, sum;
  int token, valid;
} Summary;

static void summarise(const Memory* memory, const SampleArgs* args, int item, Summary* to)
{
  __global const float* statistics = memory->act + args->statistics + (size_t)item * args->chunks * 4;
  __global const int* whole = (__global const int*)statistics;
  Summary all = {-INFINITY, 0.0f, 0, 0};
  int bad = 0;
  for (int c = 0; c < args->chunks; c++) {
    bad += whole[c * 4 + 3];
    if (statistics[c * 4] > all.largest) {
      all.largest = statistics[c * 4];
      all.token = whole[c * 4 + 2];
    }
  }
  for (int c = 0; c < args->chunks; c++) {
    all.sum += statistics[c * 4 + 1] * exp_nonpositive_1(statistics[c * 4] - all.largest);
  }
  all.valid = bad == 0 && all.largest > -INFINITY && all.largest < INFINITY;
  if (!all.valid) all.token = 0;
  *to = all;
}
