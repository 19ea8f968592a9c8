// SPDX-License-Identifier: Apache-2.0
// run_stages.cl: the stages of a step as kernels, one launch a stage; one work-item an item, work-group of 1 on CPUs.
//   index: the stage's. A whole step in one launch, where workers run at the same time: run_step.cl. Where work-groups do the
//   stages (run_groups.cl) only those that not every program has are here.

// id, size: of the work-item among those of the launch.
#define STAGE_KERNEL(NAME, DO)                                                                                \
  OUT_OF_LINE static void NAME##_apart(const Memory* memory, __global const Stage* stage, int id, int size)   \
  {                                                                                                           \
    DO                                                                                                        \
  }                                                                                                           \
  __kernel void NAME##_stage(MEMORY_PARAMETERS, int index)                                                    \
  {                                                                                                           \
    const Memory memory = MEMORY_ARGUMENTS;                                                                   \
    __global const Stage* stage = (__global const Stage*)(step + step[STEP_STAGES]) + index;                  \
    NAME##_apart(&memory, stage, get_global_id(0), get_global_size(0));                                       \
  }
#define STAGE_ITEM(NAME, FIELD) NAME##_item(memory, &stage->args.FIELD, id);
#define DEFINE_STAGE_KERNEL(NAME, FIELD) STAGE_KERNEL(NAME, STAGE_ITEM(NAME, FIELD))
#define DEFINE_PRODUCT_KERNEL(NAME, FIELD) STAGE_KERNEL(NAME, linear_begin(); STAGE_ITEM(NAME, FIELD) linear_end();)
#ifndef WORK_GROUP
DEFINE_STAGE_KERNEL(embed, embed)
DEFINE_STAGE_KERNEL(norm, norm)
DEFINE_STAGE_KERNEL(rope, rope)
DEFINE_STAGE_KERNEL(attention, attention)
DEFINE_STAGE_KERNEL(combine, combine)
DEFINE_STAGE_KERNEL(statistics, statistics)
DEFINE_STAGE_KERNEL(sample, sample)
DEFINE_STAGE_KERNEL(change, sample)

// Each item's rows in parts, so that there is work for every processor; as many parts as the launch is larger than the stage.
static void linear_part(const Memory* memory, __global const Stage* stage, int id, int size)
{
  const int part = id / stage->items, rows = stage->args.linear.rows, each = rows_of_part(rows, size / stage->items);
  linear_begin();
  linear_item(memory, &stage->args.linear, id % stage->items, part * each, min(rows, (part + 1) * each));
  linear_end();
}
STAGE_KERNEL(linear, linear_part(memory, stage, id, size);)
#endif

// Each item's rows in parts, as above.
#define PART_ITEM(NAME, FIELD)                                                                                \
  linear_begin();                                                                                             \
  NAME##_item(memory, &stage->args.FIELD, id % stage->items, id / stage->items, size / stage->items);         \
  linear_end();
#define DEFINE_PARTS_KERNEL(NAME, FIELD) STAGE_KERNEL(NAME, PART_ITEM(NAME, FIELD))

#if EXPERTS
DEFINE_STAGE_KERNEL(route, route)
DEFINE_STAGE_KERNEL(sort, sort)
DEFINE_STAGE_KERNEL(gather, gather)
DEFINE_STAGE_KERNEL(merge, merge)
DEFINE_PARTS_KERNEL(experts, experts)
#endif

#if LATENT
DEFINE_STAGE_KERNEL(divide, divide)
DEFINE_PARTS_KERNEL(heads, heads)
#endif

#if STATE_KIND
DEFINE_STAGE_KERNEL(convolve, state)
#if KEY_HEADS
DEFINE_STAGE_KERNEL(update, state)
DEFINE_STAGE_KERNEL(read, state)
#endif
#endif

#if ADAPTERS
DEFINE_PRODUCT_KERNEL(shrink, adapter)
DEFINE_PRODUCT_KERNEL(expand, adapter)
#endif

#if SWIGLU
DEFINE_STAGE_KERNEL(swiglu, swiglu)
#endif

#if WIDE_HEADS
DEFINE_STAGE_KERNEL(widen, widen)
DEFINE_STAGE_KERNEL(narrow, narrow)
#endif
