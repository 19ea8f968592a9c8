// SPDX-License-Identifier: Apache-2.0
// heads.cl: heads that have a matrix each (multi-head latent attention).
//   divide: of the `size` numbers of head h in row t those from `first` on, `depth` of them, as row h * T + t of the next rows;
//           what lies behind them goes to rest + (t * H + h) * rest_stride
//   heads:  out[t, h, n] = sum_k x[h * T + t, k] w[h * N + n, k], rows row_stride and heads head_stride floats from each other:
//           linear_panels() of linear_item.cl with each head's rows and weights. N is a multiple of 16
//   in [T][H][size] f32. -D HEADS (H).
//   A row's numbers depend on no other row: linear.cl's contract. Tolerance and test: exact, tests/kernel/heads_test.cpp.
//   Source: DeepSeek-AI 2024 (DeepSeek-V2, section 2.1; the matrices of keys and values absorbed).

// Item = a head of a row.
static void divide_item(const Memory* memory, __global const DivideArgs* args, int item)
{
  const int row = item / HEADS, head = item % HEADS, depth = args->depth;
  __global const float* from = memory->act + args->in + (size_t)item * args->size + args->first;
  for (int column = 0; column < depth; column += 32) {
    const float16 a = load_columns(from + column, depth - column, 0.0f);
    const float16 b = load_columns(from + column + 16, depth - column - 16, 0.0f);
    write_block(memory->act, &args->out, args->rows * HEADS, head * args->rows + row, column, depth, a, b);
  }
  __global float* rest = memory->act + args->rest + (size_t)item * args->rest_stride;
  for (int i = 0; i < args->size - args->first - depth; i++) rest[i] = from[depth + i];
}

// Item = `panels` panels of a head, fewer at its end; of the rows part `part` of `parts`.
static void heads_item(const Memory* memory, __global const HeadsArgs* args, int item, int part, int parts)
{
  const int rows = args->rows, outputs = args->weight.outputs / HEADS, panels = outputs / 16;
  const int pieces = (panels + args->panels - 1) / args->panels, head = item / pieces, first = item % pieces * args->panels;
  const int each = rows_of_part(rows, parts), begin_row = part * each, row0 = head * rows;
  const Product product = {&args->weight, args->bias, &args->in, &args->out, EPILOGUE_STORE, args->row_stride, rows * HEADS,
                           head * panels, outputs, (long)head * args->head_stride - (long)row0 * args->row_stride};
  linear_panels(memory, &product, first, min(first + args->panels, panels), row0 + begin_row, row0 + min(rows, begin_row + each));
}
