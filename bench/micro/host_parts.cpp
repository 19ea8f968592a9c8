// SPDX-License-Identifier: Apache-2.0
// What the host does for a step, part by part: scheduler, block pool, radix tree, tokenizer, sampler.
//   BM_Scheduler_step/running:R        plan and commit of one step; mean over the closed loop of `inflight bench sched`
//   BM_BlockPool_takeAndFree           a block taken, given up and freed
//   BM_RadixTree_matchPrompt/blocks:N  the way of a stored prompt of N blocks of 16 tokens, in a tree of 4,096 blocks
//   BM_RadixTree_insertAndRemove       a leaf
//   BM_Tokenizer_encode/bytes:N        English text with the demo model's vocabulary
//   BM_Sampler_draw/CASE/vocabulary:V  one token on the host
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "cache/block_pool.h"
#include "cache/radix_tree.h"
#include "model/model_loader.h"
#include "sample/sampler.h"
#include "sim/sched_bench.h"
#include "text/tokenizer.h"

namespace {

using inflight::BlockId;
using inflight::TokenId;

constexpr int32_t kBlockTokens = 16;
constexpr int32_t kTreeBlocks = 4096;

void BM_Scheduler_step(benchmark::State& state) {
  const inflight::SteadyClock clock;
  inflight::SchedBenchOptions options;
  options.running = static_cast<int32_t>(state.range(0));
  for (auto _ : state) state.SetIterationTime(inflight::bench_scheduler(options, clock).step_us_mean * 1e-6);
}
BENCHMARK(BM_Scheduler_step)->ArgName("running")->Arg(16)->Arg(256)->UseManualTime()->Iterations(3);

void BM_BlockPool_takeAndFree(benchmark::State& state) {
  inflight::BlockPool pool(kTreeBlocks, std::nullopt);
  for (auto _ : state) {
    const BlockId block = *pool.try_take();
    benchmark::DoNotOptimize(pool.dereference(block));
    pool.free(block);
  }
}
BENCHMARK(BM_BlockPool_takeAndFree);

// A tree of prompts of `blocks` blocks each, in the order of the blocks.
class Forest {
 public:
  explicit Forest(int32_t blocks) : blocks_(blocks), tree_(kTreeBlocks + 1, kBlockTokens) {
    inflight::Rng rng(1);
    for (int32_t i = 0; i < kTreeBlocks * kBlockTokens; ++i) tokens_.push_back(rng.between(0, 49'151));
    for (int32_t block = 0; block < kTreeBlocks; ++block) tree_.insert(content(block), BlockId{block}, {}, 0);
  }
  [[nodiscard]] inflight::RadixTree::Content content(int32_t block) {
    const bool first = block % blocks_ == 0;
    if (first) key_ = inflight::root_key(0);
    const auto tokens =
        std::span<const TokenId>(tokens_).subspan(static_cast<size_t>(block) * kBlockTokens, kBlockTokens);
    key_ = inflight::child_key(key_, tokens);
    return {key_, 0, first ? inflight::kNoBlock : BlockId{block - 1}, tokens};
  }
  [[nodiscard]] inflight::RadixTree& tree() { return tree_; }

 private:
  int32_t blocks_;
  inflight::RadixTree tree_;
  std::vector<TokenId> tokens_;
  inflight::PrefixKey key_ = 0;
};

void BM_RadixTree_matchPrompt(benchmark::State& state) {
  const auto blocks = static_cast<int32_t>(state.range(0));
  Forest forest(blocks);
  int32_t prompt = 0;
  for (auto _ : state) {
    const int32_t first = prompt++ % (kTreeBlocks / blocks) * blocks;
    for (int32_t block = first; block < first + blocks; ++block) {
      if (!forest.tree().find(forest.content(block))) return state.SkipWithError("a stored block was not found");
    }
  }
  state.SetItemsProcessed(state.iterations() * blocks);
}
BENCHMARK(BM_RadixTree_matchPrompt)->ArgName("blocks")->Arg(8)->Arg(32)->Arg(256);

void BM_RadixTree_insertAndRemove(benchmark::State& state) {
  Forest forest(32);
  const std::vector<TokenId> tokens(kBlockTokens, 7);
  const inflight::RadixTree::Content leaf{inflight::child_key(inflight::root_key(1), tokens), 1, inflight::kNoBlock,
                                          tokens};
  for (auto _ : state) {
    forest.tree().insert(leaf, BlockId{kTreeBlocks}, {}, 0);
    forest.tree().remove(BlockId{kTreeBlocks});
  }
}
BENCHMARK(BM_RadixTree_insertAndRemove);

void BM_Tokenizer_encode(benchmark::State& state) {
  static const auto tokenizer = inflight::Tokenizer::create(
      inflight::load_vocabulary(INFLIGHT_BENCH_SOURCE_DIR "/models/tinyworld/tinyworld-f16.gguf"));
  std::string text;
  while (text.size() < static_cast<size_t>(state.range(0)))
    text += "Once there was a clever girl, and she found 12 red stones. ";
  for (auto _ : state) {
    const std::vector<TokenId> ids = tokenizer->encode(text);
    benchmark::DoNotOptimize(ids.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}
BENCHMARK(BM_Tokenizer_encode)->ArgName("bytes")->Arg(64)->Arg(4096)->Arg(65'536);

void BM_Sampler_draw(benchmark::State& state, const inflight::SamplingParams& sampling) {
  inflight::Rng rng(1);
  std::vector<float> logits(static_cast<size_t>(state.range(0)));
  for (float& logit : logits) logit = static_cast<float>(16.0 * rng.uniform() - 8.0);
  int32_t position = 0;
  for (auto _ : state) benchmark::DoNotOptimize(inflight::draw_token(logits, sampling, position++));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK_CAPTURE(BM_Sampler_draw, greedy, inflight::SamplingParams{})->ArgName("vocabulary")->Arg(49'152);
BENCHMARK_CAPTURE(BM_Sampler_draw, temperature, inflight::SamplingParams{.temperature = 0.8F, .seed = 5})
    ->ArgName("vocabulary")
    ->Arg(49'152);
BENCHMARK_CAPTURE(BM_Sampler_draw, top_k_top_p,
                  inflight::SamplingParams{.temperature = 0.8F, .top_k = 40, .top_p = 0.95F, .seed = 5})
    ->ArgName("vocabulary")
    ->Arg(49'152);

}  // namespace
