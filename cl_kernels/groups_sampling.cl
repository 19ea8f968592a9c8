// SPDX-License-Identifier: Apache-2.0
// groups_sampling.cl: statistics, change and sample by work-groups; definitions and layouts: sampling.cl and
//   sampling_item.cl.
//   The edges of top_k and top_p are found bit by bit of the logits' order: tokens above a key are counted, or their weights
//   added up, by all threads. These are integers, so no order matters.
//   Mapping: item = a chunk of a row; a row. Test: tests/kernel/sampling_test.cpp.

#define STATISTICS_PIECE 2048  // numbers in local memory
#define ALL_WRITTEN() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)

// Sum over the threads of what each has; in every thread.
#define DEFINE_ALL(NAME, T, BOTH)                                                      \
  static T NAME(T mine, __local T* of)                                                 \
  {                                                                                    \
    TOGETHER();                                                                        \
    of[THREAD] = mine;                                                                 \
    for (int part = WORK_GROUP / 2; part > 0; part /= 2) {                             \
      TOGETHER();                                                                      \
      if (THREAD < part) of[THREAD] = BOTH(of[THREAD], of[THREAD + part]);             \
    }                                                                                  \
    TOGETHER();                                                                        \
    return of[0];                                                                      \
  }
DEFINE_ALL(sum_of_all, ulong, PLUS)
DEFINE_ALL(max_of_all, float, fmax)
DEFINE_ALL(min_of_all, int, min)
DEFINE_ALL(count_of_all, int, PLUS)

static void statistics_group(const Memory* memory, const StatisticsArgs* args, int item, __local float* words)
{
  if (!is_counted(memory, args->chunks, args->list, item)) return;
  const int row = item / args->chunks, chunk = item % args->chunks, begin = chunk * STATISTICS_CHUNK;
  const int count = min(args->vocabulary - begin, STATISTICS_CHUNK);
  __global float* logits = memory->act + args->logits + (size_t)row * args->vocabulary + begin;
  const int allowed = allowed_bits(memory, args->chunks, args->list, item);
  EACH_THREAD(i, allowed < 0 ? 0 : count) {  // each reads below what itself wrote
    if (!(memory->step[allowed + i / 32] >> i % 32 & 1)) logits[i] = -INFINITY;
  }
  __local int* ints = (__local int*)words;
  float most = -INFINITY;
  int bad = 0, id = count;
  EACH_THREAD(i, count) {
    most = fmax(most, logits[i]);
    bad += logits[i] != logits[i];
  }
  const float largest = max_of_all(most, words);
  bad = count_of_all(bad, ints);
  EACH_THREAD(i, count) {
    if (logits[i] == largest) id = min(id, i);
  }
  id = min_of_all(id, ints);
  // 16 sums in order, one of every 16th number.
  float sum = 0.0f, tail = 0.0f;
  for (int first = 0; first < count; first += STATISTICS_PIECE) {
    const int here = min(STATISTICS_PIECE, count - first);
    TOGETHER();
    EACH_THREAD(i, here) {
      const float logit = logits[first + i];
      words[i] = exp_nonpositive_1(logit - largest);
      if (first + i >= count / 16 * 16 && logit == -INFINITY) words[i] = 0.0f;
    }
    TOGETHER();
    if (THREAD < 16) {
#pragma unroll 8
      for (int i = THREAD; i < here; i += 16) sum += words[i];
    }
  }
  TOGETHER();
  if (THREAD < 16) words[THREAD] = sum;
  TOGETHER();
  if (THREAD > 0) return;
  __global float* out = memory->act + args->out + (size_t)item * 4;
  out[0] = largest;
  out[1] = sum_16(vload16(0, words));
  ((__global int*)out)[2] = begin + (id < count ? id : -1);
  ((__global int*)out)[3] = bad;
}

// find_threshold() of sampling.cl. Bit by bit: the largest key from which on there is enough; then what has that key.
static void threshold_of(const Distribution* d, int by_mass, ulong wanted, __local ulong* words, Threshold* to)
{
  const int ALL = -1, SAME = 32, ABOVE = 33;  // steps; the others are bits
  uint key = 0;
  Tally same = 0;
  for (int step = ALL; step <= ABOVE; step++) {
    const uint bit = step >= 0 && step < SAME ? 0x80000000u >> step : 0, from = step == ABOVE ? key + 1 : key | bit;
    Tally mine = 0;
    EACH_THREAD(i, d->count) {
      const float logit = d->logits[i];
      if (order_key(logit) >= from && (step != ABOVE || from != 0)) mine += tally_of(token_weight(d, logit));
    }
    const Tally found = (Tally)(sum_of_all(mine.x, words), sum_of_all(mine.y, words));
    if (step == ALL && tally_by(found, by_mass) < wanted) {
      *to = (Threshold){0, 0xFFFFFFFFu, found.x};
      return;
    }
    if (bit != 0 && tally_by(found, by_mass) >= wanted) key = from;
    if (step == SAME) same = found;
    if (step == ABOVE) {
      same -= found;
      const ulong each = same.x / same.y, missing = wanted - tally_by(found, by_mass);
      const ulong ties = by_mass ? (missing + each - 1) / each : missing;
      *to = (Threshold){key, (uint)ties, found.x + ties * each};
    }
  }
}

// What the kept tokens of [begin, end) add to `sum`, of which `ties` of the threshold's key are kept; and, where the sum comes
// to exceed `limit`, the token that makes it so.
static ulong walk_run(const Distribution* d, Threshold threshold, int begin, int end, uint ties, ulong sum, ulong limit,
                      int* token)
{
  for (int i = begin; i < end && sum <= limit; i++) {
    const uint key = order_key(d->logits[i]);
    if (key < threshold.key) continue;
    const ulong weight = token_weight(d, d->logits[i]);
    if (weight == 0 || (key == threshold.key && ties == 0)) continue;
    if (key == threshold.key) ties--;
    sum += weight;
    if (sum > limit) *token = i;
  }
  return sum;
}

// What the threads before this one have.
static ulong sum_before(ulong mine, __local ulong* words)
{
  TOGETHER();
  words[THREAD] = mine;
  TOGETHER();
  ulong sum = 0;
  for (int t = 0; t < THREAD; t++) sum += words[t];
  return sum;
}

// The first token at which the running sum of the kept ones exceeds `limit`; each thread walks through a run of its own.
static int token_at(const Distribution* d, Threshold threshold, ulong limit, __local ulong* words)
{
  const int each = (d->count + WORK_GROUP - 1) / WORK_GROUP;
  const int begin = min(THREAD * each, d->count), end = min(begin + each, d->count);
  uint ties = 0;
  for (int i = begin; i < end; i++) ties += order_key(d->logits[i]) == threshold.key;
  const uint before = (uint)min(sum_before(ties, words), (ulong)threshold.ties), left = threshold.ties - before;
  int token = 0x7FFFFFFF;
  const ulong mine = walk_run(d, threshold, begin, end, left, 0, 0xFFFFFFFFFFFFFFFFul, &token);
  walk_run(d, threshold, begin, end, left, sum_before(mine, words), limit, &token);
  return min_of_all(token, (__local int*)words);
}

// draw_token() of sampling.cl.
static int draw_by_group(const Distribution* d, __global const int* sample, __local ulong* words)
{
  const int top_k = sample[7];
  const float top_p = as_float(sample[6]);
  Threshold threshold;
  const int by_count = top_k > 0 && top_k < d->count, by_mass = top_p < 1.0f;
  ulong wanted = by_count ? (ulong)top_k : 0xFFFFFFFFFFFFFFFFul;
  for (int mass = 0; mass <= by_mass; mass++) {
    if (mass) wanted = max(mul_hi(threshold.weight, (ulong)(top_p * 4294967296.0f) << 32), (ulong)1);
    threshold_of(d, mass, wanted, words, &threshold);
  }
  const ulong u = philox_word((uint)sample[1], (uint)sample[2], (uint)sample[3]) >> 8;
  return token_at(d, threshold, mul_hi(threshold.weight, u << 40), words);
}

// tell_top() of sampling_item.cl, one after the other. words: 2 for each thread.
static void tell_top_by_group(const Distribution* d, int count, __global int* out, __local float* words)
{
  const int NOBODY = 0x7FFFFFFF;
  __local int* ids = (__local int*)words + WORK_GROUP;
  float before = INFINITY;
  int id_before = -1;
  for (int told = 0; told < count; told++) {
    float most = -INFINITY;
    int id = NOBODY;
    EACH_THREAD(i, d->count) {
      const float logit = d->logits[i];
      const int later = logit < before || (logit == before && i > id_before);
      if (later && (id == NOBODY || logit > most)) {
        most = logit;
        id = i;
      }
    }
    TOGETHER();
    words[THREAD] = most;
    ids[THREAD] = id;
    TOGETHER();
    id_before = NOBODY;
    for (int t = 0; t < WORK_GROUP; t++) {
      const int first = id_before == NOBODY || words[t] > before || (words[t] == before && ids[t] < id_before);
      before = first ? words[t] : before;
      id_before = first ? ids[t] : id_before;
    }
    if (THREAD == 0) vstore2((int2)(id_before, as_int(before)), told, out);
  }
}

// words: 2 for each thread. is_listed: 1 for each own token.
static void change_group(const Memory* memory, const SampleArgs* args, int item, __local float* words, __local int* is_listed)
{
  __global const int* sample = memory->step + args->list + item * SAMPLE_WORDS;
  if (sample[8] < 0 && sample[9] == 0) return;
  Summary all;
  summarise(memory, args, item, &all);
  const Distribution d = DISTRIBUTION_OF(memory, args, item, all.largest, sample);
  tell_top_by_group(&d, all.valid ? sample[9] : 0, memory->step + sample[10], words);
  if (THREAD == 0) keep_summary(&all, sample, memory->step);
  if (!all.valid || sample[8] < 0) return;
  Changes c;
  find_changes(memory, args, item, &c);
  const int listed = c.head[1];
  EACH_THREAD(back, c.uncounted) is_listed[back] = 0;
  ALL_WRITTEN();
  EACH_THREAD(i, listed) {
    for (int back = 0; back < c.uncounted; back++) {
      if (own_token(memory, &c, back) != c.counted[i]) continue;
      c.counts[i]++;
      is_listed[back] = 1;
    }
  }
  ALL_WRITTEN();
  if (THREAD == 0) {
    for (int i = 0; i < c.biased_count; i++) bias_logit(&c, i);
    for (int back = 0; back < c.uncounted; back++) {
      if (!is_listed[back]) count_own(&c, listed, own_token(memory, &c, back));
    }
  }
  ALL_WRITTEN();
  EACH_THREAD(i, c.head[1]) penalise_logit(&c, i);
}

// Nobody draws any more.
static void restore_by_group(const Changes* c)
{
  EACH_THREAD(i, c->head[1]) c->logits[c->counted[i]] = as_float(c->counts[i]);
  ALL_WRITTEN();
  if (THREAD == 0) restore_biased(c);
}

static void sample_group(const Memory* memory, const SampleArgs* args, int item, __local ulong* words)
{
  __global const int* sample = memory->step + args->list + item * SAMPLE_WORDS;
  Summaries of;
  summarise_both(memory, args, item, &of);
  const Distribution d = DISTRIBUTION_OF(memory, args, item, of.drawn_from.largest, sample);
  const int draws = of.drawn_from.valid && d.inverse_temperature > 0.0f;
  const int token = sample[11] >= 0 ? sample[11] : draws ? draw_by_group(&d, sample, words) : of.drawn_from.token;
  if (of.changed) {
    Changes c;
    find_changes(memory, args, item, &c);
    restore_by_group(&c);
  }
  if (THREAD == 0) write_sample(memory, args, item, &of.all, token, of.drawn_from.valid);
}
