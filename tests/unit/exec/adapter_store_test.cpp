// SPDX-License-Identifier: Apache-2.0
// Adapters on a whole model: the truth is the base model with the adapter's matrices merged into its weights, in
// doubles. (That a request's bits do not depend on who else is in the batch: determinism_test.cpp, the cases with
// adapters.)
#include "exec/adapter_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "exec/cl_executor.h"
#include "model/model_loader.h"
#include "support/executor_runner.h"
#include "support/expect_error.h"
#include "support/reference_model.h"
#include "support/synthetic_adapter.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"

namespace inflight {
namespace {

// A small model on the device with places for adapters.
class AdapterWorld {
 public:
  explicit AdapterWorld(TensorType type, int32_t max_loras = 2)
      : AdapterWorld(test::SyntheticModel{.matrix_type = type}, max_loras) {}
  AdapterWorld(const test::SyntheticModel& synthetic, int32_t max_loras)
      : synthetic_(synthetic),
        model_(load_model(folder_.write("model.gguf", test::build_model(synthetic_).bytes()))),
        store_(model_.spec, 24),
        executor_(device_, model_.spec, model_.weights,
                  {.kv = KvLayout::of(model_.spec, 16, KvType::F32),
                   .kv_block_count = 16,
                   .max_num_seqs = 2,
                   .max_num_batched_tokens = 64,
                   .keep_logits = true,
                   .max_loras = max_loras,
                   .adapters = &store_}) {}

  AdapterLease load(const std::string& name, const test::SyntheticAdapter& adapter) {
    store_.load(name, folder_.write(name, test::build_adapter(adapter, model_.spec).bytes()));
    return store_.lease(name);
  }

  // Behind a prompt that is the same for all.
  std::vector<float> logits(uint32_t adapter) {
    test::RunnerSequence sequence{.adapter = adapter, .tokens = prompt()};
    for (int32_t i = 0; i < 4; ++i) sequence.blocks.push_back(BlockId{i});
    BatchPlan plan;
    test::add_entry(plan, sequence, static_cast<int32_t>(sequence.tokens.size()));
    executor_.submit(plan);
    EXPECT_TRUE(executor_.wait().sampled.at(0).valid);
    return executor_.logits().at(0);
  }

  [[nodiscard]] std::vector<double> truth(const std::vector<test::SyntheticAdapter>& merged) const {
    test::ReferenceModel reference(model_);
    for (const test::SyntheticAdapter& adapter : merged) {
      for (const test::LowRank& one : test::low_ranks(adapter, model_.spec)) reference.merge(one);
    }
    return reference.logits(prompt());
  }

  static std::vector<TokenId> prompt() {
    std::vector<TokenId> tokens;
    Rng rng(11);
    for (int32_t i = 0; i < 37; ++i) tokens.push_back(rng.between(0, 299));
    return tokens;
  }

  [[nodiscard]] AdapterStore& store() { return store_; }
  [[nodiscard]] const test::TempFolder& folder() const { return folder_; }
  [[nodiscard]] const ModelSpec& spec() const { return model_.spec; }

 private:
  test::SyntheticModel synthetic_;
  test::TempFolder folder_;
  LoadedModel model_;
  Device device_ = Device::open({});
  AdapterStore store_;
  ClExecutor executor_;
};

// Root mean square of the difference, in that of the truth.
double distance(const std::vector<float>& found, const std::vector<double>& truth) {
  double squares = 0.0, differences = 0.0;
  for (size_t i = 0; i < truth.size(); ++i) {
    squares += truth[i] * truth[i];
    differences += std::pow(static_cast<double>(found[i]) - truth[i], 2.0);
  }
  return std::sqrt(differences / squares);
}

TEST(AdapterStore, LogitsAreThoseOfMergedWeights) {
  AdapterWorld world(TensorType::F32);
  const std::vector<double> plain = world.truth({});
  EXPECT_LT(distance(world.logits(0), plain), 1e-5);
  std::vector<test::SyntheticAdapter> adapters;
  for (const int32_t rank : {1, 4, 16, 23}) adapters.push_back({.rank = rank, .seed = static_cast<uint64_t>(rank)});
  adapters.push_back({.rank = 8, .alpha = -1.0F, .type = TensorType::F16, .seed = 100});
  adapters.push_back({.rank = 8, .alpha = 32.0F, .type = TensorType::BF16, .seed = 101});
  for (const char* target : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
    adapters.push_back({.targets = {target}, .seed = 200});
  }
  for (size_t i = 0; i < adapters.size(); ++i) {
    SCOPED_TRACE(i);
    const auto held = world.load("a" + std::to_string(i), adapters[i]);
    const std::vector<double> truth = world.truth({adapters[i]});
    const std::vector<float> found = world.logits(held.id());
    EXPECT_LT(distance(found, truth), 1e-5);
    EXPECT_GT(distance(found, plain), 0.01);  // it does something
  }
  EXPECT_LT(distance(world.logits(0), plain), 1e-5);
}

// Where the feed-forward reads what attention reads; where it has no gate, of attention alone.
TEST(AdapterStore, ChangeLayersWhoseFeedForwardIsBesideAttention) {
  for (const bool gated : {true, false}) {
    SCOPED_TRACE(gated);
    test::SyntheticModel model;
    test::SyntheticAdapter adapter{.rank = 8, .seed = 4};
    if (gated) {
      model.make_cohere2();
    } else {
      model.make_gpt_neox(true);
      adapter.targets.resize(kAttentionTargetCount);
    }
    AdapterWorld world(model, 1);
    const auto held = world.load("a", adapter);
    const std::vector<float> found = world.logits(held.id());
    EXPECT_LT(distance(found, world.truth({adapter})), 1e-5);
    EXPECT_GT(distance(found, world.truth({})), 0.01);
  }
}

// Where a norm follows, the products are added before it.
TEST(AdapterStore, AreNormedWithWhatTheyAreAddedTo) {
  test::SyntheticModel gemma;
  gemma.make_gemma(3);
  AdapterWorld world(gemma, 1);
  const test::SyntheticAdapter adapter{.rank = 8, .seed = 4};
  const auto held = world.load("a", adapter);
  const std::vector<float> found = world.logits(held.id());
  EXPECT_LT(distance(found, world.truth({adapter})), 1e-5);
  EXPECT_GT(distance(found, world.truth({})), 0.01);
}

// The rows that A reads are floats also where the model's own weights read them as bytes.
TEST(AdapterStore, OnAQuantisedModelTheProductsAreAsExact) {
  AdapterWorld world(TensorType::Q8_0);
  const test::SyntheticAdapter adapter{.rank = 8, .alpha = 24.0F, .seed = 3};
  const auto held = world.load("a", adapter);
  const double plain = distance(world.logits(0), world.truth({}));
  EXPECT_LT(plain, 0.05);
  EXPECT_LT(distance(world.logits(held.id()), world.truth({adapter})), 0.1);
  EXPECT_GT(distance(world.logits(held.id()), world.truth({})), 0.3);
}

// One slot, several adapters in turn: what was there before leaves no trace, and who comes back is as before.
TEST(AdapterStore, AdaptersTakeTurnsInASlot) {
  AdapterWorld world(TensorType::F32, 1);
  const auto large = world.load("large", {.rank = 24, .seed = 1});
  const auto small = world.load("small", {.rank = 2, .targets = {"attn_v", "ffn_down"}, .seed = 2});
  const std::vector<float> first = world.logits(large.id()), second = world.logits(small.id());
  EXPECT_NE(first, second);
  EXPECT_LT(distance(second, world.truth({{.rank = 2, .targets = {"attn_v", "ffn_down"}, .seed = 2}})), 1e-5);
  EXPECT_EQ(world.logits(large.id()), first);
  EXPECT_EQ(world.logits(small.id()), second);
}

TEST(AdapterStore, NamesAreTakenOnceAndIdsNeverAgain) {
  AdapterWorld world(TensorType::F32);
  AdapterStore& store = world.store();
  INFLIGHT_EXPECT_ERROR(ErrorCode::NotFound, "there is no adapter 'x', loaded: none", [&] { (void)store.lease("x"); });
  AdapterLease first = world.load("x", {.rank = 3});
  const uint32_t id = first.id();
  EXPECT_EQ(&store.find(id), first.adapter());
  EXPECT_EQ(first.adapter()->rank, 3);
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "adapter 'x' is loaded already",
                        [&] { (void)world.load("x", {}); });
  (void)world.load("y", {});
  INFLIGHT_EXPECT_ERROR(ErrorCode::NotFound, "there is no adapter 'z', loaded: x, y", [&] { store.unload("z"); });
  store.unload("x");
  INFLIGHT_EXPECT_ERROR(ErrorCode::NotFound, "there is no adapter 'x'", [&] { (void)store.lease("x"); });
  EXPECT_EQ(store.list().size(), 1U);
  EXPECT_EQ(store.held_count(), 2U);  // "x" is still used
  EXPECT_EQ(&store.find(id), first.adapter());
  AdapterLease again = first.again();
  first = {};
  EXPECT_EQ(store.held_count(), 2U);
  EXPECT_NE(world.load("x", {.rank = 3}).id(), id);
  EXPECT_EQ(store.held_count(), 3U);
  again = AdapterLease();
  EXPECT_EQ(store.held_count(), 2U);
  EXPECT_EQ(store.list().at(0).name, "x");
  store.unload("y");
  EXPECT_EQ(store.held_count(), 1U);
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "has 0 bytes, allowed: 1 to 256",
                        [&] { world.store().load("", "f"); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "rank 25, allowed: 1 to 24 (max_lora_rank)",
                        [&] { (void)world.load("big", {.rank = 25}); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::NotFound, "nowhere.gguf",
                        [&] { store.load("n", world.folder().file("nowhere.gguf")); });
}

// What does not fit the device is said before anything is allocated.
TEST(AdapterStore, TooManySlotsAreNamed) {
  test::SyntheticModel synthetic;
  const test::TempFolder folder;
  const LoadedModel model = load_model(folder.write("m", test::build_model(synthetic).bytes()));
  DeviceInfo device = Device::open({}).info();
  ClExecutorOptions options{.kv = KvLayout::of(model.spec, 16, KvType::F16), .kv_block_count = 4, .max_loras = 3};
  const AdapterStore store(model.spec, 8);
  options.adapters = &store;
  const size_t slots = 3 * store.slot_bytes();
  EXPECT_EQ(plan_memory(device, model.spec, model.weights, options).adapter_bytes, slots);
  device.allocation_bytes_max = slots - 1;
  INFLIGHT_EXPECT_ERROR(ErrorCode::OutOfMemory, "max_loras is 3 with max_lora_rank 8",
                        [&] { (void)plan_memory(device, model.spec, model.weights, options); });
}

}  // namespace
}  // namespace inflight
