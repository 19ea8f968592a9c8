// SPDX-License-Identifier: Apache-2.0
// run_groups.cl: the stages of a step as kernels of GPUs, one launch a stage, one work-group an item.
//   Of a linear layer linear_few, linear_few_floats or linear_many runs; which, and how many items it has, linear_groups() of
//   src/ops/linear_trial.h knows.
//   Up to three layers that read the same rows share a launch: the second one's items begin at second, the third one's at third.

#define GROUP_KERNEL(NAME, DO)                                                                                   \
  __kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1))) void NAME##_stage(MEMORY_PARAMETERS, Stage stage) \
  {                                                                                                              \
    const Memory memory = MEMORY_ARGUMENTS;                                                                      \
    const int item = get_group_id(0);                                                                            \
    DO                                                                                                           \
  }
#define LINEAR_KERNEL(NAME, DO)                                                                                  \
  __kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1))) void NAME##_stage(                            \
      MEMORY_PARAMETERS, LinearArgs a, LinearArgs b, LinearArgs c, int second, int third)                        \
  {                                                                                                              \
    const Memory memory = MEMORY_ARGUMENTS;                                                                      \
    const int group = get_group_id(0), item = group - (group >= third ? third : group >= second ? second : 0);   \
    const LinearArgs args = group >= third ? c : group >= second ? b : a;                                        \
    DO                                                                                                           \
  }
GROUP_KERNEL(embed, embed_group(&memory, &stage.args.embed, item);)
GROUP_KERNEL(norm, LOCAL(float, tile, TILE_ROWS * TILE_STRIDE) norm_group(&memory, &stage.args.norm, item, tile);)
GROUP_KERNEL(rope, rope_group(&memory, &stage.args.rope, item);)
GROUP_KERNEL(combine, LOCAL(float, tile, TILE_ROWS * TILE_STRIDE) combine_group(&memory, &stage.args.combine, item, tile);)
LINEAR_KERNEL(linear_few, LOCAL(int, words, FEW_WORDS) LOCAL(float, tile, FEW_ROWS * TILE_STRIDE)
              linear_few(&memory, &args, item, words, tile);)
LINEAR_KERNEL(linear_few_floats, LOCAL(float, words, CHUNK_FLOATS) LOCAL(float, tile, FEW_FLOAT_ROWS * TILE_STRIDE)
              linear_few_floats(&memory, &args, item, words, tile);)
LINEAR_KERNEL(linear_many, LOCAL(float, tile, TILE_ROWS * TILE_STRIDE) linear_many(&memory, &args, item, tile);)
#define ATTENTION_LOCAL {query, score, part, position, at, values}
GROUP_KERNEL(attention, LOCAL(float, query, QUERY_FLOATS) LOCAL(float, score, SCORE_FLOATS) LOCAL(float, part, SUM_FLOATS)
             __local int position[GROUP_QUERIES]; __local ulong at[GROUPS_MAX]; __local uint4 values[VALUE_UNITS];
             AttentionLocal l = ATTENTION_LOCAL;
             attention_group(&memory, &stage.args.attention, item, &l);)
GROUP_KERNEL(statistics, LOCAL(float, words, STATISTICS_PIECE) statistics_group(&memory, &stage.args.statistics, item, words);)
GROUP_KERNEL(change, LOCAL(float, words, 2 * WORK_GROUP) __local int is_listed[OWN_TOKENS_MAX];
             change_group(&memory, &stage.args.sample, item, words, is_listed);)
GROUP_KERNEL(sample, __local ulong words[WORK_GROUP]; sample_group(&memory, &stage.args.sample, item, words);)
