// SPDX-License-Identifier: Apache-2.0
// groups_linear_trial.cl: the sums of groups_linear.cl alone, to verify and to time them; y as in linear_trial.cl.
//   linear_trial_few, _few_floats: item = a panel, or a pair of them where there are fewer items than panels. linear_trial_many:
//   as linear_many(). Test: tests/kernel/linear_test.cpp.

#define TRIAL_PARAMETERS                                                                                                    \
  __global const uchar *weights, __global const float *x, __global const char *q, __global const float *scale,              \
      __global const int *sum, __global float *y, int type, int depth, int outputs, int rows, int first_panel
#define GROUPS_OF_256 __kernel __attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))

#define DEFINE_TRIAL_FEW(NAME, SUMS, TYPE, WORDS, ROWS)                                                                     \
  GROUPS_OF_256 void NAME(TRIAL_PARAMETERS)                                                                                 \
  {                                                                                                                         \
    LOCAL(TYPE, words, WORDS)                                                                                               \
    LOCAL(float, tile, ROWS * TILE_STRIDE)                                                                                  \
    const LinearInput in = {x, q, scale, sum, rows};                                                                        \
    const int each = get_num_groups(0) == outputs / 16 ? 1 : 2, panel = get_group_id(0) * each;                             \
    const int bytes = panel_bytes(type, depth);                                                                             \
    __global const uchar* a = weights + (ulong)(first_panel + panel) * bytes;                                               \
    __global const uchar* b = each == 2 && (panel + 1) * 16 < outputs ? a + bytes : 0;                                      \
    SUMS(type, a, b, &in, depth, words, tile);                                                                              \
    TOGETHER();                                                                                                             \
    EACH_THREAD(i, rows * each * 16) {                                                                                      \
      const int r = i / (each * 16), c = i % (each * 16);                                                                   \
      if (panel * 16 + c < outputs) y[(size_t)r * outputs + panel * 16 + c] = tile[r * TILE_STRIDE + c];                    \
    }                                                                                                                       \
  }
DEFINE_TRIAL_FEW(linear_trial_few, few_bytes, int, FEW_WORDS, FEW_ROWS)
DEFINE_TRIAL_FEW(linear_trial_few_floats, few_floats, float, CHUNK_FLOATS, FEW_FLOAT_ROWS)

GROUPS_OF_256 void linear_trial_many(TRIAL_PARAMETERS)
{
  LOCAL(float, tile, TILE_ROWS * TILE_STRIDE)
  const LinearInput in = {x, q, scale, sum, rows};
  const int tiles = (rows + TILE_ROWS - 1) / TILE_ROWS, panel = get_group_id(0) / tiles * 4, bytes = panel_bytes(type, depth);
  const int row0 = get_group_id(0) % tiles * TILE_ROWS, here = min(TILE_ROWS, rows - row0), types[2] = {type, type};
  __global const uchar* panels[4];
  for (int i = 0; i < 4; i++) {
    panels[i] = (panel + i) * 16 < outputs ? weights + (ulong)(first_panel + panel + i) * bytes : 0;
  }
  many_rows(types, panels, &in, row0, here, depth, tile);
  TOGETHER();
  EACH_THREAD(i, here * 64) {
    const int r = i / 64, c = i % 64;
    if (panel * 16 + c < outputs) y[(size_t)(row0 + r) * outputs + panel * 16 + c] = tile[r * TILE_STRIDE + c];
  }
}
