// SPDX-License-Identifier: Apache-2.0
#include "ops/clblast_trial.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

namespace inflight {

std::vector<std::string> ClblastTrial::files() { return {"stage.cl", "linear.cl", "linear_item.cl", kDenseFile}; }

ClblastTrial::ClblastTrial(Device& device, const ClblastParameters& parameters, const ClblastLimits& limits)
    : device_(device),
      program_(device, {.files = files(), .options = ""}),
      linear_(device, program_, limits, parameters),
      words_(device, "trial step", kStepCounters + kStageWords),
      unused_(device, "trial unused", 16) {}

void ClblastTrial::prepare(const LinearShape& shape, const std::vector<std::byte>& panels,
                           const std::vector<float>& x) {
  weights_ = Buffer<std::byte>(device_, "trial weights", panels.size());
  weights_.write(panels);
  const auto outputs = static_cast<size_t>(shape.rows) * static_cast<size_t>(shape.outputs);
  std::vector<float> activations = x;
  activations.resize(x.size() + outputs, std::numeric_limits<float>::quiet_NaN());
  activations_ = Buffer<float>(device_, "trial activations", activations.size());
  activations_.write(activations);

  stage_ = Stage{.operation = Operation::Linear, .items = 1};
  stage_.linear = LinearArgs{};
  stage_.linear.weight[0] = {.type = shape.type, .depth = shape.depth, .outputs = shape.outputs};
  stage_.linear.bias[0] = stage_.linear.bias[1] = kNone;
  stage_.linear.in.floats = 0;
  stage_.linear.epilogue = Epilogue::Store;
  stage_.linear.out.floats = static_cast<int32_t>(x.size());
  stage_.linear.out_stride = shape.outputs;
  stage_.linear.rows = shape.rows;
  std::vector<int32_t> words(words_.size());
  words[kStepStageCount] = 1;
  words[kStepStages] = kStepCounters;
  std::memcpy(&words[kStepCounters], &stage_, sizeof(stage_));
  words_.write(words);
}

void ClblastTrial::launch() {
  StepMemory memory;
  memory.weights[0] = &weights_.memory();
  memory.kv[0] = memory.vectors = memory.angles = memory.row_tokens = &unused_.memory();
  memory.activations = &activations_.memory();
  memory.step = &words_.memory();
  linear_.run(memory, stage_, 0);
}

std::vector<float> ClblastTrial::run(const LinearCase& c) {
  prepare(c.shape, c.panels, c.x);
  launch();
  std::vector<float> y(activations_.size() - c.x.size());
  activations_.read(y, c.x.size());
  return y;
}

double ClblastTrial::time(const LinearShape& shape, int32_t repeats) {
  const LinearCase c = make_linear_case(shape, 1);
  prepare(shape, c.panels, c.x);
  launch();
  device_.finish();
  double fastest = std::numeric_limits<double>::infinity();
  for (int32_t i = 0; i < repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    launch();
    device_.finish();
    fastest = std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return fastest;
}

std::string verify_clblast(ClblastTrial& trial) {
  for (const PanelType type : {PanelType::F32, PanelType::F16, PanelType::BF16}) {
    for (const int32_t rows : {1, 2, 3, 5, 8, 16, 33, 70}) {
      LinearCase c = make_linear_case({type, 35, 39 + 40 * rows, rows}, static_cast<uint64_t>(rows));
      if (rows == 5) c.x[3] = std::numeric_limits<float>::quiet_NaN();
      if (std::string wrong = linear_difference(c, trial.run(c), static_cast<size_t>(c.shape.outputs));
          !wrong.empty()) {
        return wrong;
      }
    }
  }
  return {};
}

}  // namespace inflight
