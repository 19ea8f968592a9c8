// SPDX-License-Identifier: Apache-2.0
// run_step.cl: a whole step in one launch, for CPUs: one work-item a worker, as many as there are compute units. Workers
//   draw tickets; ticket n is the n-th `batch` of items of the step, in the order of the stages. Before it begins, its worker
//   waits until the items behind the stage's wait_counter are done. These have lower tickets, so they are in the hands of
//   workers that run: also a single worker, or workers that run one after the other, come to the end.
//   A launch may begin while the launch before it runs, or before that one (Device::launch_beside): it works on that one's
//   step first, so in whatever order the driver begins them the older step comes to its end, for which it then waits.
//   A norm or combine stage of few rows has no tickets: each worker does all of it for itself before its first item of the
//   linear stages that read it. That takes less than a wait for each other.
//   Other devices: run_stages.cl. A program has one of the two: drivers compile every kernel that a program holds.

// Writes of other workers before their add to the counter are seen after the wait; own writes before the add are
// seen by whoever waits for it. On CPUs (the only users of run_step) global memory is coherent.
// A worker that waits longer than the others' items last may be in the way of one that was descheduled: it then offers
// its processor at every look (Linux on x86: the system call sched_yield). Without that two engines on one machine
// slowed each other down by a factor of 50.
#define SPINS_BEFORE_YIELD 256

// A worker that waits asks meanwhile for weights that it is likely to read next: they do not depend on what it waits for,
// and the memory would be idle.
#define WEIGHTS_AHEAD (256 << 10)  // bytes; well below a second-level cache
#define ROWS_BOUND_BY_WEIGHTS 32   // with more rows there is time enough to read weights when they are needed

typedef struct {
  __global const uchar *next, *end;
} WeightsAhead;

static WeightsAhead panels_ahead(const Memory* memory, __global const Weight* weight, int first, int end)
{
  const int bytes = panel_bytes(weight->type, weight->depth);
  WeightsAhead ahead;
  ahead.next = weight_panel(memory, weight, first, bytes);
  ahead.end = ahead.next + min((ulong)(end - first) * bytes, (ulong)WEIGHTS_AHEAD);
  return ahead;
}

#if EXPERTS
// None before the second stage of a layer's experts: it may not be known yet which ones.
static WeightsAhead experts_ahead(const Memory* memory, __global const Stage* stage, int item)
{
  const WeightsAhead none = {0, 0};
  if (stage[-1].op != OP_EXPERTS) return none;
  __global const ExpertsArgs* args = &stage->args.experts;
  const ExpertWork work = expert_work(memory, args, item);
  const int first = work.expert * (args->outputs / 16), rows = work.end_row - work.begin_row;
  if (rows == 0 || rows > ROWS_BOUND_BY_WEIGHTS) return none;
  return panels_ahead(memory, args->weight, first + work.begin_panel, first + work.end_panel);
}
#endif

// Those of the item, or of the linear stage after its stage.
static WeightsAhead weights_ahead(const Memory* memory, __global const Stage* stage, __global const Stage* end, int item)
{
  const WeightsAhead none = {0, 0};
  for (; stage < end && stage->op != OP_LINEAR; stage++) {
#if EXPERTS
    if (stage->op == OP_EXPERTS) return experts_ahead(memory, stage, item);
#endif
    item = 0;
  }
  if (stage == end || stage->args.linear.rows > ROWS_BOUND_BY_WEIGHTS) return none;
  __global const LinearArgs* args = &stage->args.linear;
  return panels_ahead(memory, args->weight, first_panel(args, item), (args->weight[0].outputs + 15) / 16);
}

// Numbers of launches start again behind the largest int.
static void wait_for(__global volatile int* counter, int count, WeightsAhead ahead)
{
  for (int spins = 0; (int)((uint)*counter - (uint)count) < 0; spins++) {
    if (ahead.next < ahead.end) {
      prefetch_line(ahead.next);
      ahead.next += 64;
      spins = 0;
      continue;
    }
#if INFLIGHT_X86_LINUX
    __asm__ volatile("pause");
    if (spins > SPINS_BEFORE_YIELD) {
      long result = 24;
      __asm__ volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
    }
#endif
  }
#if INFLIGHT_X86_LINUX
  __asm__ volatile("" : : : "memory");  // x86 keeps loads in order; so must the compiler
#else
  atomic_or(counter, 0);  // PoCL's mem_fence() is nothing at all, its atomics acquire
#endif
}

static void run_item(const Memory* memory, __global const Stage* stage, int item)
{
  switch (stage->op) {
    case OP_EMBED: embed_item(memory, &stage->args.embed, item); break;
    case OP_NORM: norm_item(memory, &stage->args.norm, item); break;
    case OP_LINEAR: linear_item(memory, &stage->args.linear, item, 0, stage->args.linear.rows); break;
    case OP_ROPE: rope_item(memory, &stage->args.rope, item); break;
    case OP_ATTENTION: attention_item(memory, &stage->args.attention, item); break;
    case OP_COMBINE: combine_item(memory, &stage->args.combine, item); break;
#if ADAPTERS
    case OP_SHRINK: shrink_item(memory, &stage->args.adapter, item); break;
    case OP_EXPAND: expand_item(memory, &stage->args.adapter, item); break;
#endif
#if SWIGLU
    case OP_SWIGLU: swiglu_item(memory, &stage->args.swiglu, item); break;
#endif
#if WIDE_HEADS
    case OP_WIDEN: widen_item(memory, &stage->args.widen, item); break;
    case OP_NARROW: narrow_item(memory, &stage->args.narrow, item); break;
#endif
#if EXPERTS
    case OP_ROUTE: route_item(memory, &stage->args.route, item); break;
    case OP_SORT: sort_item(memory, &stage->args.sort, item); break;
    case OP_GATHER: gather_item(memory, &stage->args.gather, item); break;
    case OP_EXPERTS: experts_item(memory, &stage->args.experts, item, 0, 1); break;
    case OP_MERGE: merge_item(memory, &stage->args.merge, item); break;
#endif
#if LATENT
    case OP_DIVIDE: divide_item(memory, &stage->args.divide, item); break;
    case OP_HEADS: heads_item(memory, &stage->args.heads, item, 0, 1); break;
#endif
#if STATE_KIND
    case OP_CONVOLVE: convolve_item(memory, &stage->args.state, item); break;
#if KEY_HEADS
    case OP_UPDATE: update_item(memory, &stage->args.state, item); break;
    case OP_READ: read_item(memory, &stage->args.state, item); break;
#endif
#endif
    case OP_CHANGE: change_item(memory, &stage->args.sample, item); break;
    case OP_STATISTICS: statistics_item(memory, &stage->args.statistics, item); break;
    default: sample_item(memory, &stage->args.sample, item); break;
  }
}

static int ticket_count(__global const Stage* stage)
{
  return stage->batch == 0 ? 0 : (stage->items + stage->batch - 1) / stage->batch;
}

// Works on a step until nobody has a ticket to draw. copy: the worker's own rows.
OUT_OF_LINE static void work_on(Memory* memory, __global int* step, __global float* copy)
{
  memory->step = step;
  const int stage_count = step[STEP_STAGE_COUNT];
  __global const Stage* stages = (__global const Stage*)(step + step[STEP_STAGES]);
  __global volatile int* counters = step + STEP_COUNTERS;
  __global volatile int* launches_done = memory->row_tokens + step[STEP_DONE];
  int stage = 0, first = 0, group = -1;  // first: ticket of the stage; group: counter of the last item
  __global const Stage* prepares = 0;    // the last stage without tickets that was passed
  // Without a ticket in hand: when the launch before is done, whoever then has a processor draws the first one.
  wait_for(launches_done, (int)((uint)step[STEP_NUMBER] - 1u), weights_ahead(memory, stages, stages + stage_count, 0));
  while (true) {
    const int ticket = atomic_inc((__global volatile int*)step + STEP_TICKET);
    for (; stage < stage_count && ticket >= first + ticket_count(stages + stage); stage++) {
      first += ticket_count(stages + stage);
      if (stages[stage].batch == 0) prepares = stages + stage;
    }
    if (stage == stage_count) return;
    __global const Stage* current = stages + stage;
    const int begin = (ticket - first) * current->batch, end = min(begin + current->batch, current->items);
    if (current->wait_counter >= 0) {
      wait_for(counters + current->wait_counter * STEP_COUNTER_STRIDE, current->wait_count,
               weights_ahead(memory, current, stages + stage_count, begin));
    }
    const int has_copy = prepares && prepares->counter == current->counter;
    const int own_items = has_copy && group != current->counter ? prepares->items : 0;
    memory->prepared = has_copy ? copy : memory->act;
    group = current->counter;
    for (int item = -own_items; item < end - begin; item++) {
      run_item(memory, item < 0 ? prepares : current, item < 0 ? item + own_items : begin + item);
    }
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    const int done = end - begin + atomic_add(counters + current->counter * STEP_COUNTER_STRIDE, end - begin);
    if (current->counter == step[STEP_LAST_COUNTER] && done == step[STEP_LAST_COUNT]) {
      atomic_xchg(launches_done, step[STEP_NUMBER]);
    }
  }
}

__kernel void run_step(MEMORY_PARAMETERS, __global int* step_before)
{
  Memory memory = MEMORY_ARGUMENTS;
  // Workers of the launch before may run at the same time: they have the other half of the copies.
  const size_t worker = get_global_id(0) + (step[STEP_NUMBER] & 1) * get_global_size(0);
  __global float* copy = act + worker * step[STEP_COPY_STRIDE];
  linear_begin();
  for (int own = step_before == step; own < 2; own++) work_on(&memory, own ? step : step_before, copy);
  linear_end();
}
