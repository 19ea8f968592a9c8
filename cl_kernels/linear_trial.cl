// SPDX-License-Identifier: Apache-2.0
// linear_trial.cl: linear_tile() alone, to verify and to time it. A work-item two panels, its rows in as many parts as the
// launch has more items than pairs of panels, in work-groups as in a step (run_stages.cl, linear_stage):
//   y[t, 16 * panel + n] = acc[t][n]      y [rows][outputs] f32; outputs a multiple of 16
// Test: tests/kernel/linear_test.cpp.
__kernel void linear_trial(__global const uchar* weights, __global const float* x, __global const char* q,
                           __global const float* scale, __global const int* sum, __global float* y, int type, int depth,
                           int outputs, int rows, int first_panel)
{
  const int pairs = (outputs + 31) / 32, parts = get_global_size(0) / pairs, part = get_global_id(0) / pairs;
  const int each = (rows + parts * LINEAR_ROWS - 1) / (parts * LINEAR_ROWS) * LINEAR_ROWS, end = min(rows, (part + 1) * each);
  const int panel = get_global_id(0) % pairs * 2, bytes = panel_bytes(type, depth);
  const LinearInput in = {x, q, scale, sum, rows};
  __global const uchar* a = weights + (ulong)(first_panel + panel) * bytes;
  __global const uchar* b = 16 * (panel + 1) < outputs ? a + bytes : 0;
  linear_begin();
  for (int row0 = part * each; row0 < end; row0 += LINEAR_ROWS) {
    const int count = min(LINEAR_ROWS, end - row0);
    float16 acc_a[LINEAR_ROWS], acc_b[LINEAR_ROWS];
    linear_tile(type, a, b, &in, row0, count, depth, acc_a, acc_b);
    for (int r = 0; r < count; r++) {
      __global float* row = y + (size_t)(row0 + r) * outputs;
      vstore16(acc_a[r], panel, row);
      if (b) vstore16(acc_b[r], panel + 1, row);
    }
  }
  linear_end();
}
