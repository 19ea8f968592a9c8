// SPDX-License-Identifier: Apache-2.0
#include "ops/clblast_linear.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "ops/panel.h"

namespace inflight {
namespace {

// At a time, unless a pair of panels takes more: 32 MiB of weights, 16 MiB of products.
constexpr size_t kWeightFloats = size_t{8} << 20;
constexpr size_t kProductFloats = size_t{4} << 20;

size_t product(int32_t a, int32_t b) { return static_cast<size_t>(a) * static_cast<size_t>(b); }
size_t padded(int32_t outputs) { return static_cast<size_t>(panel_count(outputs)) * kPanelOutputs; }

size_t weight_floats(const ClblastLimits& limits) {
  const auto depth = static_cast<size_t>(limits.depth);
  return std::min(depth * padded(limits.outputs), std::max(kWeightFloats, depth * (2 * kPanelOutputs)));
}

size_t product_floats(const ClblastLimits& limits) {
  const auto rows = static_cast<size_t>(limits.rows);
  return std::min(rows * padded(limits.outputs), std::max(kProductFloats, rows * (2 * kPanelOutputs)));
}

bool floats(const StageWeight& weight) { return !takes_bytes(weight.type); }

}  // namespace

size_t clblast_scratch_bytes(const ClblastLimits& limits) {
  return limits.depth == 0 ? 0 : (weight_floats(limits) + 2 * product_floats(limits)) * sizeof(float);
}

ClblastLinear::ClblastLinear(Device& device, const Program& program, const ClblastLimits& limits,
                             const ClblastParameters& parameters)
    : device_(device),
      unpack_(program, "unpack_panels"),
      finish_(program, "finish_linear"),
      weights_(device, "unpacked weights", weight_floats(limits)),
      y_(device, "products", product_floats(limits)),
      up_(device, "products of up", product_floats(limits)) {
  clblast_.configure(device, parameters);
}

bool ClblastLinear::takes(const Stage& stage) {
  return stage.operation == Operation::Linear && floats(stage.linear.weight[0]) &&
         (stage.linear.epilogue != Epilogue::Swiglu || floats(stage.linear.weight[1]));
}

int32_t ClblastLinear::panels_at_a_time(const Stage& stage) const {
  const LinearArgs& args = stage.linear;
  const size_t of_weights = weights_.size() / product(args.weight[0].depth, kPanelOutputs);
  const size_t of_products = y_.size() / product(args.rows, kPanelOutputs);
  const auto count = static_cast<size_t>(panel_count(args.weight[0].outputs));
  const size_t panels = std::min({count, of_weights, of_products});
  INFLIGHT_CHECK(panels == count || panels >= 2);
  return static_cast<int32_t>(panels == count ? count : panels / 2 * 2);
}

void ClblastLinear::run(const StepMemory& memory, const Stage& stage, int32_t index) {
  INFLIGHT_CHECK(takes(stage));
  const LinearArgs& args = stage.linear;
  const int32_t depth = args.weight[0].depth, count = panel_count(args.weight[0].outputs);
  const int32_t step = panels_at_a_time(stage), matrices = args.epilogue == Epilogue::Swiglu ? 2 : 1;
  for (int32_t first = 0; first < count; first += step) {
    const int32_t panels = std::min(step, count - first);
    for (int32_t which = 0; which < matrices; ++which) {
      uint32_t next = bind_memory(unpack_, memory);
      for (const int32_t value : {index, which, first, panels}) unpack_.set(next++, value);
      unpack_.set(next, weights_);
      device_.launch(unpack_, {.global = product(depth, panels)});
      clblast_.multiply(device_, {.x = memory.activations,
                                  .x_offset = static_cast<size_t>(args.in.floats),
                                  .weights = &weights_.memory(),
                                  .y = which == 0 ? &y_.memory() : &up_.memory(),
                                  .rows = args.rows,
                                  .depth = depth,
                                  .outputs = panels * kPanelOutputs});
    }
    uint32_t next = bind_memory(finish_, memory);
    for (const int32_t value : {index, first, panels}) finish_.set(next++, value);
    finish_.set(next++, y_);
    finish_.set(next, up_);
    device_.launch(finish_, {.global = product(args.rows, div_ceil(panels, 2))});
  }
}

}  // namespace inflight
