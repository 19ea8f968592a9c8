// SPDX-License-Identifier: Apache-2.0
#include "exec/adapter_stages.h"

#include "base/error.h"
#include "base/math.h"
#include "ops/panel.h"

namespace inflight {

// A work-item of a CPU takes rows enough to use what it has read of A and B from a near cache; elsewhere there must be
// many of them.
int32_t adapter_tile_rows(bool small_items) { return small_items ? 4 : 32; }
int32_t adapter_item_panels(bool small_items) { return small_items ? 2 : 32; }

AdapterArgs adapter_args(const ModelSpec& spec, const Arena& arena, const ArenaSize& size, const AdapterSizes& sizes,
                         const AdaptedMatrices& matrices) {
  INFLIGHT_CHECK(!matrices.outs.empty() && matrices.outs.size() <= 3);
  AdapterArgs args{};
  args.layer = matrices.layer;
  args.target = static_cast<int32_t>(matrices.first);
  args.targets = static_cast<int32_t>(matrices.outs.size());
  args.in = matrices.in;
  args.depth = lora_shape(spec, matrices.first).depth;
  args.shrunk = arena.shrunk;
  args.max_rows = size.rows;
  args.rank_max = size.lora_rank;
  args.slot_size = sizes.slot_size;
  args.panels = sizes.panels;
  for (int32_t i = 0; i < args.targets; ++i) {
    const LoraShape shape = lora_shape(spec, static_cast<LoraTarget>(args.target + i));
    INFLIGHT_CHECK(shape.depth == args.depth);
    args.out[i] = matrices.outs[static_cast<size_t>(i)];
    args.outputs[i] = shape.outputs;
    const int32_t parts = div_ceil(panel_count(shape.outputs), sizes.panels);
    args.part_panels[i] = parts * sizes.panels;
    args.parts += parts;
  }
  return args;
}

int32_t adapter_items(const Stage& stage, int32_t tile_count) {
  const AdapterArgs& args = stage.adapter;
  const bool shrink = stage.operation == Operation::Shrink;
  return tile_count * (shrink ? args.targets * panel_count(args.rank_max) : args.parts);
}

}  // namespace inflight
