// SPDX-License-Identifier: Apache-2.0
// linear_item.cl: a linear layer with what follows it, fused.
//   STORE:  out[t, n] = acc + bias[n]                       out [rows][out_stride] f32
//   ADD:    out[t, n] = out[t, n] + (acc + bias[n])
//   SWIGLU: h[t, n] = gated(gate + bias0[n], up + bias1[n]), prelude.cl; weight[0] gate, weight[1] up; written as the rows of the
//           next layer: floats, int8 blocks, or both
//   ACTIVATE: as SWIGLU of one weight, whose up is 1; with -D UNGATED=1 only
//   LOGITS: out[t, n] = acc + bias[n], with -D LOGIT_SOFTCAP=c c * tanh(that / c)
//   Mapping: item = `panels` panels of 16 outputs (SWIGLU and ACTIVATE: an even number, rows are written in blocks of two) for
//   the rows [begin_row, end_row): all rows where a worker should read each weight once a step. The first `long_items` items
//   have `long_panels`: memory is read fastest in long pieces, and short items at the end let the workers finish together.
//   Test: tests/kernel/linear_test.cpp.

// Writes 32 columns of one of `rows` rows as int8. column is a multiple of 32.
static void write_bytes(__global float* act, __global const Rows* to, int rows, int row, int column, float16 a, float16 b)
{
  // Magnitudes have the order of their bits; infinity and NaN are the largest.
  const float largest = as_float(max_int_16(max(as_int16(a) & 0x7FFFFFFF, as_int16(b) & 0x7FFFFFFF)));
  const float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
  const float poison = largest - largest;  // NaN and infinity must not vanish in the integers
  const int16 qa = nearest_int_16(a, inverse), qb = nearest_int_16(b, inverse);
  const size_t block = (size_t)(column / 32) * rows + row;
  __global char* bytes = (__global char*)(act + to->bytes) + block * 32;
  *(__global char16*)bytes = convert_char16(qa);
  *(__global char16*)(bytes + 16) = convert_char16(qb);
  act[to->scales + block] = largest * (1.0f / 127.0f) + poison;
  const int16 both = qa + qb;
  const int8 eight = both.lo + both.hi;
  const int4 four = eight.lo + eight.hi;
  const int low = -8 * (four.x + four.y), high = -8 * (four.z + four.w);
  vstore2((int2)((low & 0xFFFF) | (high << 16), low + high), block, (__global int*)act + to->sums);
}

// Writes up to 32 columns of one of `rows` rows from two vectors. column is a multiple of 32; below `depth`.
static void write_block(__global float* act, __global const Rows* to, int rows, int row, int column, int depth, float16 a,
                        float16 b)
{
  if (to->floats >= 0) {
    __global float* out = act + to->floats + (size_t)row * depth + column;
    if (column + 32 <= depth) {
      STORE_16(a, out);
      STORE_16(b, out + 16);
    } else {
      float values[32];
      vstore16(a, 0, values);
      vstore16(b, 1, values);
      for (int i = 0; i < depth - column; i++) out[i] = values[i];
    }
  }
  if (to->bytes >= 0) write_bytes(act, to, rows, row, column, a, b);
}

#ifdef LOGIT_SOFTCAP
#define CAPPED_LOGITS(args, value) ((args)->epilogue == EPILOGUE_LOGITS ? soft_capped_16(value, LOGIT_SOFTCAP) : (value))
#else
#define CAPPED_LOGITS(args, value) (value)
#endif

// 16 columns, `fill` in the place of those from `count` on.
static float16 load_columns(__global const float* from, int count, float fill)
{
  if (count >= 16) return vload16(0, from);
  float values[16];
  for (int i = 0; i < 16; i++) values[i] = i < count ? from[i] : fill;
  return vload16(0, values);
}

static void store_columns(__global float* out, int count, float16 value, int add)
{
  if (count >= 16) {
    STORE_16(add ? vload16(0, out) + value : value, out);
    return;
  }
  float values[16];
  vstore16(value, 0, values);
  for (int i = 0; i < count; i++) out[i] = add ? out[i] + values[i] : values[i];
}

static float16 bias_of(const Memory* memory, int offset, int panel)
{
  return offset < 0 ? (float16)(0.0f) : vload16(panel, memory->vectors + offset);
}

// What linear_panels() computes.
typedef struct {
  __global const Weight* weight;  // gate and up, or the only one
  __global const int* bias;       // offsets of theirs
  __global const Rows *in, *out;
  int epilogue, out_stride, rows;
  int first_panel;  // of the weights and biases: an expert's
  int outputs;      // from there on
  long out_at;      // floats from where STORE and ADD would write to where they do
} Product;

// Panels [begin, end) for the rows [begin_row, end_row).
static void linear_panels(const Memory* memory, const Product* product, int begin, int end, int begin_row, int end_row)
{
  __global const Weight* gate = product->weight;
  const int type = gate->type, depth = gate->depth, outputs = product->outputs, bytes = panel_bytes(type, depth);
  const int swiglu = product->epilogue == EPILOGUE_SWIGLU, add = product->epilogue == EPILOGUE_ADD;
  const int activates = ACTIVATES(product);
  const int bias_a = product->bias[0], bias_b = product->bias[1];
  __global const float* from = memory->prepared;
  __global const Rows* rows_in = product->in;
  const LinearInput in = {from + rows_in->floats, (__global const char*)(from + rows_in->bytes), from + rows_in->scales,
                          (__global const int*)(from + rows_in->sums), product->rows};
  // Rows outside: their tile stays in a nearer cache than these weights, which are read in order.
  for (int row0 = begin_row; row0 < end_row; row0 += LINEAR_ROWS) {
    const int rows = min(LINEAR_ROWS, end_row - row0);
    for (int first = begin; first < end; first += 2) {
      const int pair = min(2, end - first), panel = product->first_panel + first;
      float16 result[2][LINEAR_ROWS], up[LINEAR_ROWS];
      if (!swiglu) {
        __global const uchar* a = weight_panel(memory, gate, panel, bytes);
        linear_tile(type, a, pair == 2 ? a + bytes : 0, &in, row0, rows, depth, result[0], result[1]);
        for (int p = 0; p < pair; p++) {
          const int column = (first + p) * 16, stride = product->out_stride;
          const float16 bias = bias_of(memory, bias_a, panel + p);
          if (activates) {
            for (int r = 0; r < rows; r++) result[p][r] = gated_16(result[p][r] + bias, (float16)(1.0f));
            continue;
          }
          __global float* out = memory->act + product->out->floats + product->out_at + (size_t)row0 * stride + column;
          for (int r = 0; r < rows; r++, out += stride) {
            store_columns(out, outputs - column, CAPPED_LOGITS(product, result[p][r] + bias), add);
          }
        }
        if (!activates) continue;
      }
      if (pair < 2) {
        for (int r = 0; r < rows; r++) result[1][r] = 0.0f;
      }
      for (int p = 0; swiglu && p < pair; p++) {
        __global const uchar* a = weight_panel(memory, gate, panel + p, bytes);
        if (gate[1].type == type) {
          linear_tile(type, a, weight_panel(memory, gate + 1, panel + p, bytes), &in, row0, rows, depth, result[p], up);
        } else {
          const int other = gate[1].type;
          linear_tile(type, a, 0, &in, row0, rows, depth, result[p], up);
          linear_tile(other, weight_panel(memory, gate + 1, panel + p, panel_bytes(other, depth)), 0, &in, row0, rows, depth, up,
                      result[p]);
        }
        const float16 bias_gate = bias_of(memory, bias_a, panel + p), bias_up = bias_of(memory, bias_b, panel + p);
        for (int r = 0; r < rows; r++) result[p][r] = gated_16(result[p][r] + bias_gate, up[r] + bias_up);
      }
      for (int r = 0; r < rows; r++) {
        write_block(memory->act, product->out, product->rows, row0 + r, first * 16, outputs, result[0][r], result[1][r]);
      }
    }
  }
}

// Rows of each of so many parts: whole tiles.
static int rows_of_part(int rows, int parts)
{
  return (rows + parts * LINEAR_ROWS - 1) / (parts * LINEAR_ROWS) * LINEAR_ROWS;
}

// First panel of an item.
static int first_panel(__global const LinearArgs* args, int item)
{
  const int longer = min(item, args->long_items);
  return longer * args->long_panels + (item - longer) * args->panels;
}

static void linear_item(const Memory* memory, __global const LinearArgs* args, int item, int begin_row, int end_row)
{
  const int outputs = args->weight[0].outputs, end = min(first_panel(args, item + 1), (outputs + 15) / 16);
  const Product product = {args->weight, args->bias, &args->in, &args->out, args->epilogue, args->out_stride, args->rows, 0,
                           outputs};
  for (int panel = first_panel(args, item); panel < end; panel += args->panels) {
    linear_panels(memory, &product, panel, min(panel + args->panels, end), begin_row, end_row);
  }
}
