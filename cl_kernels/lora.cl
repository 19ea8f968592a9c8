// SPDX-License-Identifier: Apache-2.0
// lora.cl: the low-rank products of adapters, added to the rows of a mixed batch, each row by its own request's adapter.
//   shrink: t[row, j] = sum_k A[j, k] x[row, k]                             A [R, K], x [rows][K] f32
//   expand: y[row, n] = y[row, n] + scale * (sum_j B[n, j] t[row, j])       B [N, R], y [rows][N] f32
//   swiglu: h[row, n] = act(gate[row, n]) * up[row, n], written as the rows of the next layer: what the fused epilogue of
//           linear_item.cl does, for steps where something has to be added to gate and up before
//   Sums: linear_tile()'s contract (linear.cl), so that a row's bits do not depend on what else is in the step. A row without
//   an adapter is neither read nor written by shrink and expand, and has the bits that it has in a step without them.
//   Tiles: int[3] each in `step`: slot of the adapter, first row, rows. Rows of several requests that lie side by side and have
//   one adapter are one tile, so that A and B are read once for them.
//   Memory of a slot: [layer][7] AdapterPair (order: q k v o gate up down), then panels of A and B, as packed by
//   src/exec/adapter_store.cpp. shrunk: [targets][max_rows][rank_max] f32, the rows of a tile R apart.
//   Tolerance against the double reference: 1e-5 of the sum of magnitudes. Test: tests/kernel/lora_test.cpp.
//   Sources: Hu et al. 2021 (LoRA), Chen et al. 2023 (Punica: shrink and expand of a mixed batch), Sheng et al. 2023 (S-LoRA).

#define ADAPTER_TILE_WORDS 3
#define ADAPTER_PAIRS 7  // of a layer

typedef struct {
  int type_a, offset_a;  // TYPE_F32, TYPE_F16 or TYPE_BF16; units of 64 bytes from the slot's begin
  int type_b, offset_b;
  int rank;     // 0: the adapter leaves this matrix alone
  float scale;  // alpha / rank
  int unused[2];
} AdapterPair;

static __global const uchar* adapter_slot(const Memory* memory, __global const AdapterArgs* args, __global const int* tile)
{
  return memory->adapters + (ulong)tile[0] * args->slot_size * 64;
}

static __global const AdapterPair* adapter_pair(__global const AdapterArgs* args, __global const uchar* slot, int which)
{
  return (__global const AdapterPair*)slot + args->layer * ADAPTER_PAIRS + args->target + which;
}

static __global float* shrunk_rows(const Memory* memory, __global const AdapterArgs* args, int which, int first_row)
{
  return memory->act + args->shrunk + ((size_t)which * args->max_rows + first_row) * args->rank_max;
}

// Item = 16 of the ranks of one target for the rows of one tile.
static void shrink_item(const Memory* memory, __global const AdapterArgs* args, int item)
{
  const int panels = (args->rank_max + 15) / 16;
  const int panel = item % panels, which = item / panels % args->targets;
  __global const int* tile = memory->step + args->tiles + item / (panels * args->targets) * ADAPTER_TILE_WORDS;
  const int first_row = tile[1], rows = tile[2];
  __global const uchar* slot = adapter_slot(memory, args, tile);
  __global const AdapterPair* pair = adapter_pair(args, slot, which);
  const int rank = pair->rank, type = pair->type_a;
  if (panel * 16 >= rank) return;
  __global const uchar* a = slot + (ulong)pair->offset_a * 64 + (ulong)panel * panel_bytes(type, args->depth);
  const LinearInput in = {memory->act + args->in, 0, 0, 0, first_row + rows};
  __global float* out = shrunk_rows(memory, args, which, first_row) + panel * 16;
  for (int row = 0; row < rows; row += LINEAR_ROWS) {
    const int count = min(LINEAR_ROWS, rows - row);
    float16 acc[LINEAR_ROWS];
    linear_tile(type, a, 0, &in, first_row + row, count, args->depth, acc, acc);
    for (int r = 0; r < count; r++) store_columns(out + (size_t)(row + r) * rank, rank - panel * 16, acc[r], 0);
  }
}

// Item = up to args->panels panels of one target's outputs for the rows of one tile.
static void expand_item(const Memory* memory, __global const AdapterArgs* args, int item)
{
  __global const int* tile = memory->step + args->tiles + item / args->parts * ADAPTER_TILE_WORDS;
  int which = 0, first = item % args->parts * args->panels;  // panel
  for (int i = 0; i < 2; i++) {  // not "until it fits": Mesa's llvmpipe 22.3 then does the loops below once
    const int over = which == i && i + 1 < args->targets && first >= args->part_panels[i];
    first -= over ? args->part_panels[i] : 0;
    which += over;
  }
  const int first_row = tile[1], rows = tile[2], outputs = args->outputs[which];
  __global const uchar* slot = adapter_slot(memory, args, tile);
  __global const AdapterPair* pair = adapter_pair(args, slot, which);
  const int rank = pair->rank, type = pair->type_b;
  if (rank == 0) return;
  const int end = min(first + args->panels, (outputs + 15) / 16);
  const LinearInput in = {shrunk_rows(memory, args, which, first_row), 0, 0, 0, rows};
  __global float* out = memory->act + args->out[which] + (size_t)first_row * outputs;
  for (int row = 0; row < rows; row += LINEAR_ROWS) {
    const int count = min(LINEAR_ROWS, rows - row);
    for (int panel = first; panel < end; panel++) {
      __global const uchar* b = slot + (ulong)pair->offset_b * 64 + (ulong)panel * panel_bytes(type, rank);
      float16 acc[LINEAR_ROWS];
      linear_tile(type, b, 0, &in, row, count, rank, acc, acc);
      for (int r = 0; r < count; r++) {
        store_columns(out + (size_t)(row + r) * outputs + panel * 16, outputs - panel * 16, pair->scale * acc[r], 1);
      }
    }
  }
}
