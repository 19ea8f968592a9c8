// SPDX-License-Identifier: Apache-2.0
// swiglu.cl: y[t, :] = act(gate[t, :]) * up[t, :] where the products of gate and up are not fused with it: something is added to
//   them first (lora.cl), or `up` is no product (embeddings of layers). act: GATE_EXPONENT of prelude.cl. A row's numbers depend
//   on no other row. Test: tests/kernel/lora_test.cpp, tests/unit/exec/reference_test.cpp.

// Item = SWIGLU_COLUMNS columns of one row.
#define SWIGLU_COLUMNS 512
static void swiglu_item(const Memory* memory, __global const SwigluArgs* args, int item)
{
  const int depth = args->depth, parts = (depth + SWIGLU_COLUMNS - 1) / SWIGLU_COLUMNS;
  const int row = item / parts, begin = item % parts * SWIGLU_COLUMNS, end = min(begin + SWIGLU_COLUMNS, depth);
  __global const float* gate = memory->act + args->gate + (size_t)row * depth;
  __global const float* up = memory->act + args->up + (size_t)row * args->up_stride;
  for (int column = begin; column < end; column += 32) {
    float16 h[2];
    if (column + 32 <= depth) {
      for (int i = 0; i < 2; i++) h[i] = gated_16(vload16(i, gate + column), vload16(i, up + column));
    } else {
      float g[32], u[32];
      for (int i = 0; i < 32; i++) {
        g[i] = column + i < depth ? gate[column + i] : 0.0f;
        u[i] = column + i < depth ? up[column + i] : 0.0f;
      }
      for (int i = 0; i < 2; i++) h[i] = gated_16(vload16(i, g), vload16(i, u));
    }
    write_block(memory->act, &args->out, args->rows, row, column, depth, h[0], h[1]);
  }
}
