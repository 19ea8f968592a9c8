// SPDX-License-Identifier: Apache-2.0
// run_group_step.cl: a whole step of few rows in one launch, for GPUs whose work-groups see each other's writes while they run.
//   As run_step.cl, a work-group in the place of a worker: work-groups draw tickets in the order of the stages' items, and what
//   an item waits for has lower tickets, which are in the hands of work-groups that run. So the step comes to its end however
//   many of the work-groups the device runs at a time, if those that it has begun go on.
//   A work-group draws its next ticket before it begins an item, so that it does not wait for the draw; and asks for an item's
//   weights before it waits for the item's rows.
//   A norm or combine stage of batch 0 is done by each work-group for itself, as there.
//   Launches of GPUs cost microseconds each, several hundred of them a step; where the time goes here: docs/performance/gpu.md.
// Test: tests/unit/exec/determinism_test.cpp, tests/kernel/tiny_model_test.cpp.

// Makes what this thread has seen or written come before what follows, for all work-groups. OpenCL 1.2's mem_fence() is one
// within the work-group on NVIDIA's; on x86, the other devices that run this, loads and stores stay in order by themselves.
#if MMA_INT8
#define FENCE() __asm__ volatile("fence.acq_rel.gpu;" : : : "memory")
#define ASK_FOR(line) __asm__ volatile("prefetch.global.L2 [%0];" : : "l"(line))
#else
#define FENCE() mem_fence(CLK_GLOBAL_MEM_FENCE)
#define ASK_FOR(line)
#endif
#define LINE_BYTES 128

// Local memory, in bytes, of the stages that need most; it is used by one after the other.
#define LINEAR_LOCAL (4 * (FEW_WORDS + FEW_ROWS * TILE_STRIDE))
#define ATTENTION_LOCAL_BYTES \
  (16 * VALUE_UNITS + 8 * GROUPS_MAX + 4 * (QUERY_FLOATS + SCORE_FLOATS + SUM_FLOATS + GROUP_QUERIES))
#define STEP_LOCAL (LINEAR_LOCAL > ATTENTION_LOCAL_BYTES ? LINEAR_LOCAL : ATTENTION_LOCAL_BYTES)

static void attention_in_step(const Memory* memory, const AttentionArgs* args, int item, __local uint4* space)
{
  __local ulong* at = (__local ulong*)(space + VALUE_UNITS);
  __local float* query = (__local float*)(at + GROUPS_MAX);
  __local float* score = query + QUERY_FLOATS;
  __local float* part = score + SCORE_FLOATS;
  AttentionLocal l = {query, score, part, (__local int*)(part + SUM_FLOATS), at, space};
  attention_group(memory, args, item, &l);
}

static void linear_in_step(const Memory* memory, const LinearArgs* args, int item, __local uint4* space)
{
  if (takes_bytes(args->weight[0].type)) {
    linear_few(memory, args, item, (__local int*)space, (__local float*)space + FEW_WORDS);
  } else {
    linear_few_floats(memory, args, item, (__local float*)space, (__local float*)space + CHUNK_FLOATS);
  }
}

#define CASE(OP, ARGS, FIELD, DO)          \
  case OP: {                               \
    const ARGS args = stage->args.FIELD;   \
    DO;                                    \
    break;                                 \
  }
static void run_group_item(const Memory* memory, __local const Stage* stage, int item, __local uint4* space)
{
  __local float* floats = (__local float*)space;
  switch (stage->op) {
    CASE(OP_EMBED, EmbedArgs, embed, embed_group(memory, &args, item))
    CASE(OP_NORM, NormArgs, norm, norm_group(memory, &args, item, floats))
    CASE(OP_LINEAR, LinearArgs, linear, linear_in_step(memory, &args, item, space))
    CASE(OP_ROPE, RopeArgs, rope, rope_group(memory, &args, item))
    CASE(OP_ATTENTION, AttentionArgs, attention, attention_in_step(memory, &args, item, space))
    CASE(OP_COMBINE, CombineArgs, combine, combine_group(memory, &args, item, floats))
    CASE(OP_CHANGE, SampleArgs, sample,
         change_group(memory, &args, item, floats, (__local int*)(floats + 2 * WORK_GROUP)))
    CASE(OP_STATISTICS, StatisticsArgs, statistics, statistics_group(memory, &args, item, floats))
    default: {
      const SampleArgs args = stage->args.sample;
      sample_group(memory, &args, item, (__local ulong*)space);
    }
  }
}

// All rows of a norm or combine stage, into the work-group's own copy.
static void prepare_rows(const Memory* memory, __local const Stage* stage, __local float* tile)
{
  if (stage->op == OP_NORM) {
    const NormArgs args = stage->args.norm;
    for (int row = 0; row < args.rows; row++) norm_group(memory, &args, row, tile);
  } else {
    const CombineArgs args = stage->args.combine;
    for (int row = 0; row < args.rows; row++) combine_columns(memory, &args, whole_row(memory, &args, row), tile);
  }
}

// Asks for the weights of an item of a linear stage.
static void ask_for_weights(const Memory* memory, __local const Stage* stage, int item)
{
  if (stage->op != OP_LINEAR) return;
  const LinearArgs args = stage->args.linear;
  const int matrices = args.epilogue == EPILOGUE_SWIGLU ? 2 : 1, together = ACTIVATES(&args) ? 2 : matrices;
  const int panel = item * together;
  const int bytes = panel_bytes(args.weight[0].type, args.weight[0].depth);
  const int count = min(together, (args.weight[0].outputs + 15) / 16 - panel);
  for (int i = 0; i < matrices; i++) {
    __global const uchar* from = panel_address(memory, args.weight[i].chunk, args.weight[i].offset, panel, bytes);
    for (int at = THREAD * LINE_BYTES; at < count * bytes; at += WORK_GROUP * LINE_BYTES) ASK_FOR(from + at);
  }
}

static void copy_stage(__global const Stage* from, __local Stage* to)
{
  EACH_THREAD(i, (int)(sizeof(Stage) / sizeof(int))) ((__local int*)to)[i] = ((__global const int*)from)[i];
}

__kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1))) void run_group_step(MEMORY_PARAMETERS)
{
  __local uint4 space[(STEP_LOCAL + 15) / 16];
  __local Stage current, preparing;
  __local int drawn;
  Memory memory = MEMORY_ARGUMENTS;
  __global float* copy = act + get_group_id(0) * step[STEP_COPY_STRIDE];
  const int stage_count = step[STEP_STAGE_COUNT];
  __global const Stage* stages = (__global const Stage*)(step + step[STEP_STAGES]);
  __global volatile int* counters = step + STEP_COUNTERS;
  __global volatile int* tickets = step + STEP_TICKET;
  int stage = 0, first = 0, group = -1;  // first: ticket of the stage; group: counter of the last item
  int copied = -1, prepares = -1;        // the stage that `current` is; the last one without tickets that was passed
  int next = THREAD == 0 ? atomic_inc(tickets) : 0;
  while (true) {
    TOGETHER();
    if (THREAD == 0) drawn = next;
    TOGETHER();
    const int ticket = drawn;
    for (; stage < stage_count; stage++) {
      const int items = stages[stage].items, batch = stages[stage].batch;
      const int count = batch == 0 ? 0 : (items + batch - 1) / batch;
      if (ticket < first + count) break;
      first += count;
      if (batch == 0) prepares = stage;
    }
    if (stage == stage_count) return;
    if (THREAD == 0) next = atomic_inc(tickets);
    if (stage != copied) copy_stage(stages + stage, &current);
    copied = stage;
    TOGETHER();
    const int begin = (ticket - first) * current.batch, end = min(begin + current.batch, current.items);
    ask_for_weights(&memory, &current, begin);
    const int has_copy = prepares >= 0 && stages[max(prepares, 0)].counter == current.counter;
    const int prepare = has_copy && group != current.counter;
    if (prepare) copy_stage(stages + prepares, &preparing);
    if (THREAD == 0 && current.wait_counter >= 0) {
      __global volatile int* counter = counters + current.wait_counter * STEP_COUNTER_STRIDE;
      while (*counter < current.wait_count) {}
      FENCE();
    }
    ALL_WRITTEN();
    memory.prepared = has_copy ? copy : act;
    group = current.counter;
    if (prepare) {
      prepare_rows(&memory, &preparing, (__local float*)space);
      ALL_WRITTEN();
    }
    for (int item = begin; item < end; item++) {
      run_group_item(&memory, &current, item, space);
      TOGETHER();
    }
    ALL_WRITTEN();
    if (THREAD == 0) {
      FENCE();
      atomic_add(counters + current.counter * STEP_COUNTER_STRIDE, end - begin);
    }
  }
}
