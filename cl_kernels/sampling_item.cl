// SPDX-License-Identifier: Apache-2.0
// sampling_item.cl: the stages change and sample; behind sampling.cl, which has the list, the results and the draw.
//   change: of the rows that ask for it the largest logits are told, then the logits are changed as
//     src/sample/logits_processor.cpp does it: first of each biased token l + bias (bias -infinity: l = -infinity), then of each
//     counted one l * (l > 0 ? 1 / repetition : repetition) - (count > 0 ? presence + frequency * count : 0); finite logits stay
//     finite, others as they are. sample puts them back. Behind it statistics bans what may not come (-infinity, for good).
//   changes: CHANGE_WORDS: tokens biased, counted, uncounted (Changes); where the row's token stands in `step` (below 0:
//   what was sampled for row -1 - it); 1 / repetition, repetition, presence, frequency; max, sum and valid before the change
//   (change writes them); room for counted ones; where in `step` a bit for each token says whether it may come (-1: all may).
//   Then tokens and biases of the biased, tokens and counts of the counted.
//   Where biases and counts were, change puts the logits before.
//   Mapping: one item = one row. Test: tests/kernel/sampling_test.cpp.

#define CHANGE_WORDS 13
#define OWN_TOKENS_MAX 64

#define DISTRIBUTION_OF(memory, args, item, largest, sample)                                                         \
  {(memory)->act + (args)->logits + (size_t)(item) * (args)->vocabulary, (args)->vocabulary, largest, as_float((sample)[4]), \
   as_float((sample)[5])}

static void write_sample(const Memory* memory, const SampleArgs* args, int item, const Summary* all, int token, int valid)
{
  memory->row_tokens[memory->step[args->list + item * SAMPLE_WORDS]] = token;
  __global int* result = memory->step + args->results + item * 8;
  result[0] = token;
  result[1] = valid;
  result[2] = as_int(memory->act[args->logits + (size_t)item * args->vocabulary + token]);
  result[3] = as_int(all->largest);
  result[4] = as_int(all->sum);
}

// How a row's logits are changed. The row's own tokens in `step`, of which the last stands at own_token, are counted there as
// far as the counts do not hold them: `uncounted` of them.
typedef struct {
  __global int* head;
  __global float* logits;
  __global int* biased;
  __global float* biases;
  __global int* counted;
  __global int* counts;
  int biased_count, uncounted;
  __global const int* own_token;
  float of_positive, of_others, presence, frequency;
} Changes;

static void find_changes(const Memory* memory, const SampleArgs* args, int item, Changes* to)
{
  __global int* head = memory->step + memory->step[args->list + item * SAMPLE_WORDS + 8];
  to->head = head;
  to->logits = memory->act + args->logits + (size_t)item * args->vocabulary;
  to->biased_count = head[0];
  to->uncounted = head[2];
  to->own_token = memory->step + head[3];
  to->of_positive = as_float(head[4]);
  to->of_others = as_float(head[5]);
  to->presence = as_float(head[6]);
  to->frequency = as_float(head[7]);
  to->biased = head + CHANGE_WORDS;
  to->biases = (__global float*)(to->biased + to->biased_count);
  to->counted = to->biased + 2 * to->biased_count;
  to->counts = to->counted + head[11];
}

// Of the row's own tokens number `back` from the end.
static int own_token(const Memory* memory, const Changes* c, int back)
{
  const int token = c->own_token[-back];
  return token < 0 ? memory->row_tokens[-token - 1] : token;
}

// The change of one token; what stood in the place of its logit stands then where its bias or its count was.
static void bias_logit(const Changes* c, int i)
{
  __global float* logit = c->logits + c->biased[i];
  const float before = *logit, bias = c->biases[i];
  c->biases[i] = before;
  if (bias == -INFINITY) {
    *logit = bias;
  } else if (isfinite(before)) {
    *logit = clamp(before + bias, -FLT_MAX, FLT_MAX);
  }
}
static void penalise_logit(const Changes* c, int i)
{
  __global float* logit = c->logits + c->counted[i];
  const float before = *logit;
  const int count = c->counts[i];
  c->counts[i] = as_int(before);
  if (!isfinite(before)) return;
  float after = before * (before > 0.0f ? c->of_positive : c->of_others);
  if (count > 0) after -= c->presence + c->frequency * (float)count;
  *logit = clamp(after, -FLT_MAX, FLT_MAX);
}
// Counts one of the row's own tokens, which is not among the first `from` of the counted ones.
static void count_own(const Changes* c, int from, int token)
{
  const int end = c->head[1];
  int at = from;
  while (at < end && c->counted[at] != token) at++;
  if (at == end) {
    c->counted[end] = token;
    c->counts[end] = 0;
    c->head[1] = end + 1;
  }
  c->counts[at]++;
}

static void tell_top(const Distribution* d, int count, __global int* out)
{
  int told = 0;
  float least = -INFINITY;  // of those told
  for (int first = 0; first < d->count; first += 16) {
    if (told == count && !any(logits_at(d, first) > least)) continue;
    for (int i = first; i < min(first + 16, d->count); i++) {
      const float logit = d->logits[i];
      if (told == count && !(logit > least)) continue;
      int at = told < count ? told++ : count - 1;
      for (; at > 0 && as_float(out[2 * at - 1]) < logit; at--) {
        out[2 * at] = out[2 * at - 2];
        out[2 * at + 1] = out[2 * at - 1];
      }
      out[2 * at] = i;
      out[2 * at + 1] = as_int(logit);
      least = as_float(out[2 * told - 1]);
    }
  }
}

// What is to be known of the logits as they were.
static void keep_summary(const Summary* all, __global const int* sample, __global int* step)
{
  if (sample[8] < 0) return;
  __global int* head = step + sample[8];
  head[8] = as_int(all->largest);
  head[9] = as_int(all->sum);
  head[10] = all->valid;
}

static void change_item(const Memory* memory, __global const SampleArgs* from, int item)
{
  const SampleArgs args = *from;
  __global const int* sample = memory->step + args.list + item * SAMPLE_WORDS;
  if (sample[8] < 0 && sample[9] == 0) return;
  Summary all;
  summarise(memory, &args, item, &all);
  if (all.valid && sample[9] > 0) {
    const Distribution d = DISTRIBUTION_OF(memory, &args, item, all.largest, sample);
    tell_top(&d, sample[9], memory->step + sample[10]);
  }
  keep_summary(&all, sample, memory->step);
  if (!all.valid || sample[8] < 0) return;
  Changes c;
  find_changes(memory, &args, item, &c);
  for (int i = 0; i < c.biased_count; i++) bias_logit(&c, i);
  for (int back = 0; back < c.uncounted; back++) count_own(&c, 0, own_token(memory, &c, back));
  for (int i = 0; i < c.head[1]; i++) penalise_logit(&c, i);
}

// What result and token are made of: the logits as they were, and those to draw from.
typedef struct {
  Summary all, drawn_from;
  int changed;
} Summaries;

static void summarise_both(const Memory* memory, const SampleArgs* args, int item, Summaries* to)
{
  const int offset = memory->step[args->list + item * SAMPLE_WORDS + 8];
  summarise(memory, args, item, &to->drawn_from);
  to->all = to->drawn_from;
  to->changed = 0;
  if (offset < 0) return;
  __global const int* head = memory->step + offset;
  to->all.largest = as_float(head[8]);
  to->all.sum = as_float(head[9]);
  to->changed = head[10];
}

static void restore_biased(const Changes* c)
{
  for (int i = c->biased_count - 1; i >= 0; i--) c->logits[c->biased[i]] = c->biases[i];  // one may stand there twice
}

static void sample_item(const Memory* memory, __global const SampleArgs* from, int item)
{
  const SampleArgs args = *from;
  __global const int* sample = memory->step + args.list + item * SAMPLE_WORDS;
  Summaries of;
  summarise_both(memory, &args, item, &of);
  const Distribution d = DISTRIBUTION_OF(memory, &args, item, of.drawn_from.largest, sample);
  const int draws = of.drawn_from.valid && d.inverse_temperature > 0.0f;
  const int token = sample[11] >= 0 ? sample[11] : draws ? draw_token(&d, sample) : of.drawn_from.token;
  if (of.changed) {
    Changes c;
    find_changes(memory, &args, item, &c);
    for (int i = 0; i < c.head[1]; i++) c.logits[c.counted[i]] = as_float(c.counts[i]);
    restore_biased(&c);
  }
  write_sample(memory, &args, item, &of.all, token, of.drawn_from.valid);
}
