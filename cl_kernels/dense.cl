// SPDX-License-Identifier: Apache-2.0
// dense.cl: what stands around a matrix product that somebody else computes (src/ops/clblast_linear.cpp).
//   unpack_panels: w[k, n] = number k of output n, of `panels` panels from `first` on; w [depth][16 * panels] f32; of F32, F16,
//     BF16.
//   finish_linear: the epilogue of linear_item.cl for the products y and, of SWIGLU, up; [rows][16 * panels] f32.
//   Mapping: one item = 16 outputs at one depth; one row and two panels. `first` is even.
//   Tests: tests/kernel/clblast_test.cpp.

static __global const LinearArgs* linear_args(__global const int* step, int index)
{
  return &((__global const Stage*)(step + step[STEP_STAGES]) + index)->args.linear;
}

__kernel void unpack_panels(MEMORY_PARAMETERS, int index, int which, int first, int panels, __global float* to)
{
  const Memory memory = MEMORY_ARGUMENTS;
  __global const Weight* weight = linear_args(step, index)->weight + which;
  const int panel = get_global_id(0) % panels, k = get_global_id(0) / panels, type = weight->type;
  __global const uchar* from = weight_panel(&memory, weight, first + panel, panel_bytes(type, weight->depth));
  float16 w;
  if (type == TYPE_F16) {
    w = vload_half16(k, (__global const half*)from);
  } else if (type == TYPE_F32) {
    w = vload16(k, (__global const float*)from);
  } else {
    w = as_float16(convert_uint16(vload16(k, (__global const ushort*)from)) << (uint16)(16));
  }
  vstore16(w, get_global_id(0), to);
}

__kernel void finish_linear(MEMORY_PARAMETERS, int index, int first, int panels, __global const float* y,
                            __global const float* up)
{
  const Memory memory = MEMORY_ARGUMENTS;
  __global const LinearArgs* args = linear_args(step, index);
  const int pairs = (panels + 1) / 2, row = get_global_id(0) / pairs, pair = get_global_id(0) % pairs * 2;
  const int swiglu = args->epilogue == EPILOGUE_SWIGLU, add = args->epilogue == EPILOGUE_ADD;
  const int outputs = args->weight[0].outputs, column = (first + pair) * 16, count = min(panels - pair, 2);
  float16 result[2];
  result[1] = 0.0f;
  for (int p = 0; p < count; p++) {
    const size_t at = (size_t)row * panels + pair + p;
    result[p] = vload16(at, y) + bias_of(&memory, args->bias[0], first + pair + p);
    if (swiglu) result[p] = gated_16(result[p], vload16(at, up) + bias_of(&memory, args->bias[1], first + pair + p));
    if (ACTIVATES(args)) result[p] = gated_16(result[p], (float16)(1.0f));
  }
  if (swiglu || ACTIVATES(args)) {
    write_block(memory.act, &args->out, args->rows, row, column, outputs, result[0], result[1]);
    return;
  }
  __global float* out = memory.act + args->out.floats + (size_t)row * args->out_stride + column;
  store_columns(out, outputs - column, CAPPED_LOGITS(args, result[0]), add);
  if (count == 2) store_columns(out + 16, outputs - column - 16, CAPPED_LOGITS(args, result[1]), add);
}
