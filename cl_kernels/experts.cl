// SPDX-License-Identifier: Apache-2.0
// experts.cl: mixtures of experts: each row of a step goes through the feed-forwards that a router chooses for it.
//   route:  p = softmax(logits[t, :]) over X experts, or with `sigmoid` 1 / (1 + exp(-logits[t, :])); a row's `used` experts are
//           those of the largest p + bias, in falling order, the lower number first among equals; weight[t, j] = scale * p, with
//           `normed` divided by the sum of the row's chosen p (or by 2^-14 if that is less), with `scales` times the expert's.
//           With several `groups`, X / groups experts each, only those of the groups_used groups whose two largest p + bias have
//           the largest sum
//   sort:   rows of experts: T * used in all, those of one expert side by side, experts in order, rows of the step in order
//   gather: y[place(t, j), :] = x[t, :], as the rows of the next layer
//   experts: linear_panels() of linear_item.cl with each expert's rows, weights and biases: SWIGLU or ACTIVATE, or STORE
//   merge:  out[t, :] = added_to[t, :] + sum_j weight[t, j] * y[place(t, j), :], in the order of j, or without the former; and
//           with a shared expert that has a gate + shared[t, :] / (1 + exp(-sum_k gate[k] x[t, k])): 16 partial sums in order
//   Tables lie in `act` as int: chosen, places [T][used]; counts [X]; active: how many experts have rows, then of each (expert,
//   first row, end). Weights of a kind are those of all experts one after the other: X * N outputs, N a multiple of 16.
//   Numbers that are none choose the experts of the lowest numbers, with weights that are none either.
//   Tolerance 1e-5. Test: tests/kernel/experts_test.cpp.
//   Sources: Shazeer et al. 2017, Jiang et al. 2024 (Mixtral), Dai et al. 2024 (shared experts).
#define SMALLEST_SUM 6.103515625e-5f

static void softmax(__global float* x, int count)
{
  float16 largest = -INFINITY, sums = 0.0f;
  for (int i = 0; i < count; i += 16) largest = fmax(largest, load_columns(x + i, count - i, -INFINITY));
  const float most = max_16(largest);
  for (int i = 0; i < count; i += 16) {
    const float16 e = exp_nonpositive_16(load_columns(x + i, count - i, -INFINITY) - most);
    store_columns(x + i, count - i, e, 0);
  }
  for (int i = 0; i < count; i += 16) sums += load_columns(x + i, count - i, 0.0f);
  const float sum = sum_16(sums);
  for (int i = 0; i < count; i++) x[i] /= sum;
}

static float score_of(const Memory* memory, __global const RouteArgs* args, __global const float* p, int expert)
{
  return args->bias < 0 ? p[expert] : p[expert] + memory->vectors[args->bias + expert];
}

// A bit for each group whose experts may be chosen.
static ulong groups_of_row(const Memory* memory, __global const RouteArgs* args, __global const float* p)
{
  const int size = args->experts / args->groups;
  ulong taken = 0;
  for (int n = 0; n < args->groups_used; n++) {
    float best = -INFINITY;
    int group = -1;
    for (int g = 0; g < args->groups; g++) {
      if (taken >> g & 1) continue;
      float first = -INFINITY, second = -INFINITY;
      for (int i = 0; i < size; i++) {
        const float score = score_of(memory, args, p, g * size + i);
        second = score > first ? first : fmax(second, score);
        first = fmax(first, score);
      }
      if (group < 0 || first + second > best) {
        best = first + second;
        group = g;
      }
    }
    taken |= 1UL << group;
  }
  return taken;
}

// Item = one row.
static void route_item(const Memory* memory, __global const RouteArgs* args, int row)
{
  const int experts = args->experts, used = args->used;
  __global float* p = memory->act + args->logits + (size_t)row * experts;
  __global int* chosen = (__global int*)memory->act + args->chosen + (size_t)row * used;
  __global float* weights = memory->act + args->weights + (size_t)row * used;
  if (args->sigmoid) {
    for (int i = 0; i < experts; i += 16) {
      store_columns(p + i, experts - i, sigmoid_16(load_columns(p + i, experts - i, 0.0f)), 0);
    }
  } else {
    softmax(p, experts);
  }
  const int size = experts / args->groups;
  const ulong groups = args->groups > 1 ? groups_of_row(memory, args, p) : 1;
  float sum = 0.0f, last = INFINITY;
  int last_expert = -1;
  for (int j = 0; j < used; j++) {  // the first behind (last, last_expert) in their order
    float best = -INFINITY;
    int expert = -1;
    for (int i = 0; i < experts; i++) {
      if (!(groups >> (i / size) & 1)) continue;
      const float value = score_of(memory, args, p, i);
      const int behind = value < last || (value == last && i > last_expert);
      if (behind && value > best) {
        best = value;
        expert = i;
      }
    }
    if (expert < 0) {
      expert = j;
    } else {
      last = best;
      last_expert = expert;
    }
    chosen[j] = expert;
    weights[j] = p[expert];
    sum += p[expert];
  }
  const float divisor = args->normed ? (sum < SMALLEST_SUM ? SMALLEST_SUM : sum) : 1.0f;
  for (int j = 0; j < used; j++) {
    weights[j] = weights[j] / divisor * args->scale;
    if (args->scales >= 0) weights[j] *= memory->vectors[args->scales + chosen[j]];
  }
}

// Item = the step.
static void sort_item(const Memory* memory, __global const SortArgs* args, int item)
{
  __global int* ints = (__global int*)memory->act;
  __global const int* chosen = ints + args->chosen;
  __global int *places = ints + args->places, *counts = ints + args->counts, *active = ints + args->active;
  for (int i = 0; i < args->experts; i++) counts[i] = 0;
  for (int i = 0; i < args->rows; i++) counts[chosen[i]]++;
  int first = 0, count_active = 0;
  for (int i = 0; i < args->experts; i++) {
    const int count = counts[i];
    counts[i] = first;
    if (count == 0) continue;
    vstore3((int3)(i, first, first + count), 0, active + 1 + 3 * count_active);
    count_active++;
    first += count;
  }
  active[0] = count_active;
  for (int i = 0; i < args->rows; i++) places[i] = counts[chosen[i]]++;
}

// Item = one row of an expert.
static void gather_item(const Memory* memory, __global const GatherArgs* args, int item)
{
  const int rows = args->rows, all = rows * args->used, row = item / args->used, depth = args->depth;
  const int place = ((__global const int*)memory->act)[args->places + item];
  if (args->out.floats >= 0) {
    __global const float* from = memory->act + args->in.floats + (size_t)row * depth;
    __global float* to = memory->act + args->out.floats + (size_t)place * depth;
    for (int k = 0; k < depth; k += 16) STORE_16(vload16(0, from + k), to + k);
  }
  if (args->out.bytes < 0) return;
  __global const int* ints = (__global const int*)memory->act;
  __global int* out = (__global int*)memory->act;
  for (int b = 0; b < depth / 32; b++) {
    const size_t from = (size_t)b * rows + row, to = (size_t)b * all + place;
    vstore8(vload8(from, ints + args->in.bytes), to, out + args->out.bytes);
    out[args->out.scales + to] = ints[args->in.scales + from];
    vstore2(vload2(from, ints + args->in.sums), to, out + args->out.sums);
  }
}

// What an item of experts works on.
typedef struct {
  int expert;
  int begin_panel, end_panel;  // of the expert
  int begin_row, end_row;      // none: there are fewer active experts
} ExpertWork;

static ExpertWork expert_work(const Memory* memory, __global const ExpertsArgs* args, int item)
{
  const int panels = args->outputs / 16, pieces = (panels + args->panels - 1) / args->panels;
  const int which = item / pieces, first = item % pieces * args->panels;
  __global const int* active = (__global const int*)memory->act + args->active;
  ExpertWork result = {0, first, min(first + args->panels, panels), 0, 0};
  if (which >= active[0]) return result;
  const int3 words = vload3(which, active + 1);
  result.expert = words.x;
  result.begin_row = words.y;
  result.end_row = words.z;
  return result;
}

// Item = `panels` panels of an active expert; of its rows part `part` of `parts`.
static void experts_item(const Memory* memory, __global const ExpertsArgs* args, int item, int part, int parts)
{
  const ExpertWork work = expert_work(memory, args, item);
  const int each = rows_of_part(work.end_row - work.begin_row, parts);
  const int begin_row = work.begin_row + part * each;
  const Product product = {args->weight, args->bias, &args->in, &args->out, args->epilogue, args->out_stride, args->rows,
                           work.expert * (args->outputs / 16), args->outputs};
  linear_panels(memory, &product, work.begin_panel, work.end_panel, begin_row, min(work.end_row, begin_row + each));
}

// Item = one row.
static void merge_item(const Memory* memory, __global const MergeArgs* args, int row)
{
  const int depth = args->depth, used = args->used;
  __global const int* places = (__global const int*)memory->act + args->places + (size_t)row * used;
  __global const float* weights = memory->act + args->weights + (size_t)row * used;
  __global float* out = memory->act + args->out + (size_t)row * depth;
  float share = 0.0f;
  if (args->shared >= 0) {
    __global const float *x = memory->act + args->in + (size_t)row * depth, *gate = memory->vectors + args->shared_gate;
    float16 sums = 0.0f;
    for (int k = 0; k < depth; k += 16) sums = fma(vload16(0, gate + k), vload16(0, x + k), sums);
    share = sigmoid_16((float16)(sum_16(sums))).s0;
  }
  for (int k = 0; k < depth; k += 16) {
    float16 sum = 0.0f;
    for (int j = 0; j < used; j++) {
      __global const float* y = memory->act + args->experts + (size_t)places[j] * depth + k;
      sum = fma(vload16(0, y), weights[j], sum);
    }
    if (args->shared >= 0) sum = fma(vload16(0, memory->act + args->shared + (size_t)row * depth + k), share, sum);
    if (args->added_to >= 0) sum = vload16(0, memory->act + args->added_to + (size_t)row * depth + k) + sum;
    STORE_16(sum, out + k);
  }
}
