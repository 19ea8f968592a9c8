// SPDX-License-Identifier: Apache-2.0
// sampling.cl: logits to the next token; the twin of src/sample/sampler.cpp, bit for bit.
//   statistics: per chunk of STATISTICS_CHUNK logits: m = max, sum of exp(l - m), lowest id of the maximum, count of NaN.
//   sample: temperature 0: the lowest id of the maximum. Else each token weighs w = exp((l - max) / temperature), as an
//     integer W = floor(w * 2^40), so that all sums are exact in any order. Tokens with w < min_p are dropped; of the rest
//     the top_k first are kept, in the order (larger logit, lower id); of those the fewest first whose sum reaches top_p of
//     theirs. Then u in [0, 1) by Philox of (seed, position) picks the first id whose running sum exceeds u * total.
//   results [S][8]: token, valid, logit of the token, max, sum of exp(l - max) (floats as bits), unused.
//   list, 8 ints a sample: device row, position, seed low, seed high, 1/temperature (0: greedy), min_p, top_p (floats as
//   bits), top_k.
//   Mapping: one item = one chunk of a row; one row. Test: tests/kernel/sampling_test.cpp.

#define STATISTICS_CHUNK 4096
#define HISTOGRAM_BINS 256

static void statistics_item(const Memory* memory, __global const StatisticsArgs* args, int item)
{
  const int row = item / args->chunks, chunk = item % args->chunks, begin = chunk * STATISTICS_CHUNK;
  const int count = min(args->vocabulary - begin, STATISTICS_CHUNK), whole = count / 16;
  __global const float* logits = memory->act + args->logits + (size_t)row * args->vocabulary + begin;
  float16 most = -INFINITY;
  int16 bad = 0;
  for (int i = 0; i < whole; i++) {
    const float16 v = vload16(i, logits);
    most = fmax(most, v);
    bad -= v != v;
  }
  float16 tail = -INFINITY;
  if (whole * 16 < count) {
    float values[16];
    for (int i = 0; i < 16; i++) values[i] = whole * 16 + i < count ? logits[whole * 16 + i] : -INFINITY;
    tail = vload16(0, values);
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
  out[2] = as_float(begin + id);
  out[3] = as_float(bad4.x + bad4.y + bad4.z + bad4.w);
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

// 16 tokens at once, by the same arithmetic; behind the last token weights are 0.
typedef struct {
  uint16 keys;
  ulong16 weights;
} Tokens;
static Tokens tokens_at(const Distribution* d, int first)
{
  float16 v;
  if (first + 16 <= d->count) {
    v = vload16(0, d->logits + first);
  } else {
    float values[16];
    for (int i = 0; i < 16; i++) values[i] = first + i < d->count ? d->logits[first + i] : -INFINITY;
    v = vload16(0, values);
  }
  const float16 w = exp_nonpositive_16((v - d->largest) * d->inverse_temperature);
  const uint16 bits = as_uint16(v);
  Tokens tokens;
  tokens.weights = convert_ulong16(select(w, (float16)(0.0f), w < d->min_p) * 1099511627776.0f);
  tokens.keys = bits ^ select((uint16)(0x80000000u), (uint16)(0xFFFFFFFFu), as_int16(bits) < 0);
  return tokens;
}
static ulong sum_ulongs(ulong16 v)
{
  const ulong8 a = v.lo + v.hi;
  const ulong4 b = a.lo + a.hi;
  const ulong2 c = b.lo + b.hi;
  return c.x + c.y;
}

// Tokens kept: those of larger key, and the first `ties` of key itself.
typedef struct {
  uint key;
  uint ties;
} Threshold;

// The shortest prefix, in the order (larger logit, lower id), whose count reaches `wanted` (by_mass 0) or whose weight
// reaches `wanted` (by_mass 1; at least 1). Dropped tokens (min_p, weight below 2^-40) are not in the order.
static Threshold find_threshold(const Distribution* d, int by_mass, ulong wanted)
{
  uint prefix = 0;
  ulong above = 0;  // of the tokens of larger key
  for (int shift = 24; shift >= 0; shift -= 8) {
    ulong bins[HISTOGRAM_BINS];
    for (int i = 0; i < HISTOGRAM_BINS; i++) bins[i] = 0;
    for (int first = 0; first < d->count; first += 16) {
      const Tokens tokens = tokens_at(d, first);
      uint keys[16];
      ulong weights[16];
      if (shift < 24 && !any(((tokens.keys ^ prefix) >> (uint16)(shift + 8)) == 0)) continue;
      vstore16(tokens.keys, 0, keys);
      vstore16(tokens.weights, 0, weights);
      for (int i = 0; i < 16; i++) {
        if (shift < 24 && (keys[i] ^ prefix) >> (shift + 8) != 0) continue;
        bins[(keys[i] >> shift) & 255] += by_mass ? weights[i] : weights[i] != 0;
      }
    }
    int bin = 255;
    while (bin > 0 && above + bins[bin] < wanted) above += bins[bin--];
    prefix |= (uint)bin << shift;
  }
  const uint bits = prefix ^ ((prefix & 0x80000000u) ? 0x80000000u : 0xFFFFFFFFu);
  const ulong each = by_mass ? token_weight(d, as_float(bits)) : 1;
  const ulong missing = wanted - above;  // at least 1: the walk stops before `above` reaches it
  Threshold threshold;
  threshold.key = prefix;
  threshold.ties = each == 0 ? 0xFFFFFFFFu : (uint)min((missing + each - 1) / each, (ulong)0xFFFFFFFFu);
  return threshold;
}

// Walks the kept tokens by id: their total weight (limit = all ones), or the first id whose running sum exceeds limit.
static ulong walk_kept(const Distribution* d, Threshold threshold, ulong limit, int* token)
{
  ulong sum = 0;
  uint ties = threshold.ties;
  for (int first = 0; first < d->count; first += 16) {
    const Tokens tokens = tokens_at(d, first);
    const long16 above = convert_long16(tokens.keys > threshold.key);
    const ulong together = sum_ulongs(select((ulong16)(0), tokens.weights, above));
    if (sum + together <= limit && !any(tokens.keys == threshold.key)) {
      sum += together;
      continue;
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
  const ulong everything = 0xFFFFFFFFFFFFFFFFul;
  int token = 0;
  Threshold threshold = {0, 0xFFFFFFFFu};
  if (top_k > 0 && top_k < d->count) threshold = find_threshold(d, 0, (ulong)top_k);
  ulong total = walk_kept(d, threshold, everything, &token);
  if (top_p < 1.0f) {
    const ulong share = (ulong)(top_p * 4294967296.0f);
    const ulong goal = max(mul_hi(total, share << 32), (ulong)1);
    threshold = find_threshold(d, 1, goal);
    total = walk_kept(d, threshold, everything, &token);
  }
  const ulong u = philox_word((uint)sample[1], (uint)sample[2], (uint)sample[3]) >> 8;
  walk_kept(d, threshold, mul_hi(total, u << 40), &token);
  return token;
}

static void sample_item(const Memory* memory, __global const SampleArgs* args, int item)
{
  __global const float* statistics = memory->act + args->statistics + (size_t)item * args->chunks * 4;
  __global const int* sample = memory->step + args->list + item * 8;
  float largest = -INFINITY;
  int bad = 0, token = 0;
  for (int c = 0; c < args->chunks; c++) {
    bad += as_int(statistics[c * 4 + 3]);
    if (statistics[c * 4] > largest) {
      largest = statistics[c * 4];
      token = as_int(statistics[c * 4 + 2]);
    }
  }
  float sum = 0.0f;
  for (int c = 0; c < args->chunks; c++) {
    sum += statistics[c * 4 + 1] * exp_nonpositive_1(statistics[c * 4] - largest);
  }
  const int valid = bad == 0 && largest > -INFINITY && largest < INFINITY;
  Distribution d = {memory->act + args->logits + (size_t)item * args->vocabulary, args->vocabulary, largest,
                    as_float(sample[4]), as_float(sample[5])};
  if (!valid) {
    token = 0;
  } else if (d.inverse_temperature > 0.0f) {
    token = draw_token(&d, sample);
  }
  memory->row_tokens[sample[0]] = token;
  __global int* result = memory->step + args->results + item * 8;
  result[0] = token;
  result[1] = valid;
  result[2] = as_int(d.logits[token]);
  result[3] = as_int(largest);
  result[4] = as_int(sum);
}
