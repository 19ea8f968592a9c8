// SPDX-License-Identifier: Apache-2.0
// wide_heads.cl: heads that are normed before they are rotated and stored, in layers whose heads may be narrower than HEAD_SIZE
//   (Gemma 4's local ones). A head of S numbers is kept within HEAD_SIZE: its halves lie in those of a wide head, so that
//   RoPE turns the same pairs, at one of `places`; heads of K, or V, that fill a wide one lie side by side in it, and a query
//   that attends to one of them has 0 where the others are. Products and sums are those of the S numbers.
//   widen:  out[t, h / together, place(h, j)] = x[j] / sqrt(mean(x^2) + epsilon) * weight[j], x = in[t, h, :]; without a weight
//           times 1. Heads that are not put together have 0 elsewhere
//   narrow: the rows of the next layer, y[t, h * S + j] = in[t, h, place(h, j)]
//   place(h, j) = h / shared % places * S / 2 + j below S / 2, behind that HEAD_SIZE / 2 - S / 2 more. shared: heads of queries
//   that attend to one of K and V; of K and V themselves 1. together: 1, or `places` with places * S = HEAD_SIZE.
//   in [T][heads][S] of widen, [T][HEADS][HEAD_SIZE] of narrow, f32. S and HEAD_SIZE: multiples of 32. -D WIDE_HEADS=1.
//   Accumulation: 16 partial sums of squares in a fixed order. Tolerance 1e-5. Test: tests/kernel/wide_heads_test.cpp.
static int place_in_head(int head, int shared, int places, int j, int size)
{
  const int begin = head / shared % places * (size / 2);
  return begin + (j < size / 2 ? j : j - size / 2 + HEAD_SIZE / 2);
}

// Item = a head of a row.
static void widen_item(const Memory* memory, __global const WidenArgs* args, int item)
{
  const int size = args->size, head = item % args->heads;
  __global const float* x = memory->act + args->in + (size_t)item * size;
  __global const float* weight = memory->vectors + args->weight;
  __global float* out = memory->act + args->out + (size_t)(item / args->together) * HEAD_SIZE;
  float16 squares = 0.0f;
  for (int j = 0; j < size; j += 16) {
    const float16 v = vload16(0, x + j);
    squares = fma(v, v, squares);
  }
  const float scale = 1.0f / sqrt(sum_16(squares) / (float)size + args->epsilon);
  const int alone = args->together == 1 && size < HEAD_SIZE;
  for (int i = 0; alone && i < HEAD_SIZE; i += 16) STORE_16((float16)(0.0f), out + i);
  for (int j = 0; j < size; j += 16) {
    float16 y = vload16(0, x + j) * scale;
    if (args->weight >= 0) y = y * vload16(0, weight + j);
    STORE_16(y, out + place_in_head(head, args->shared, args->places, j, size));
  }
}

// Item = a row.
static void narrow_item(const Memory* memory, __global const NarrowArgs* args, int row)
{
  const int size = args->size, depth = HEADS * size;
  __global const float* in = memory->act + args->in + (size_t)row * (HEADS * HEAD_SIZE);
  for (int column = 0; column < depth; column += 32) {
    const int head = column / size, j = column % size;
    __global const float* from = in + head * HEAD_SIZE;
    write_block(memory->prepared, &args->out, args->rows, row, column, depth,
                vload16(0, from + place_in_head(head, args->shared, args->places, j, size)),
                vload16(0, from + place_in_head(head, args->shared, args->places, j + 16, size)));
  }
}
