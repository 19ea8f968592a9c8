// SPDX-License-Identifier: Apache-2.0
// run_stages.cl: the stages of a step as kernels, one launch a stage; one work-item an item, work-group of 1 on CPUs.
//   index: the stage's. A whole step in one launch, where workers run at the same time: run_step.cl. Where work-groups do the
//   stages (run_groups.cl) only those that not every program has are here.

#define STAGE_KERNEL(NAME, DO)                                                                      \
  __kernel void NAME##_stage(MEMORY_PARAMETERS, int index)                                          \
  {                                                                                                 \
    const Memory memory = MEMORY_ARGUMENTS;                                                         \
    __global const Stage* stage = (__global const Stage*)(step + step[STEP_STAGES]) + index;        \
    DO                                                                                              \
  }
#define STAGE_ITEM(NAME, FIELD) NAME##_item(&memory, &stage->args.FIELD, get_global_id(0));
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
__kernel void linear_stage(MEMORY_PARAMETERS, int index)
{
  const Memory memory = MEMORY_ARGUMENTS;
  __global const Stage* stage = (__global const Stage*)(step + step[STEP_STAGES]) + index;
  const int item = get_global_id(0) % stage->items, part = get_global_id(0) / stage->items;
  const int parts = get_global_size(0) / stage->items, rows = stage->args.linear.rows;
  const int each = rows_of_part(rows, parts);
  linear_begin();
  linear_item(&memory, &stage->args.linear, item, part * each, min(rows, (part + 1) * each));
  linear_end();
}
#endif

// Each item's rows in parts, as above.
#define PART_ITEM(NAME, FIELD)                                                                     \
  linear_begin();                                                                                  \
  NAME##_item(&memory, &stage->args.FIELD, get_global_id(0) % stage->items, get_global_id(0) / stage->items, \
              get_global_size(0) / stage->items);                                                  \
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
