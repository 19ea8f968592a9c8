// SPDX-License-Identifier: Apache-2.0
// Goal: every shipped eviction strategy keeps and drops exactly what its algorithm says (checklist 90).
// Method: one-block contents, so that prefix structure plays no part; a random access trace (Zipf and scans) runs
// through KvBlocks with the loaded strategy and through a simulation of the algorithm written from its paper, plainly,
// on lists. Hits must be equal access by access. Then real prefix chains: nothing is ever evicted that is in use, and
// leaves go first.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>

#include "base/rng.h"
#include "support/loaded_policies.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

constexpr int32_t kBlocks = 40;

std::vector<int> trace_of(uint64_t seed, size_t length) {
  Rng rng(seed);
  std::vector<int> trace;
  while (trace.size() < length) {
    if (rng.chance(0.02)) {  // a scan: contents that never come back
      for (int i = 0; i < 30; ++i) trace.push_back(1000 + static_cast<int>(trace.size()));
    }
    // Zipf-like over 200 contents.
    trace.push_back(static_cast<int>(200.0 * std::pow(rng.uniform(), 2.5)));
  }
  return trace;
}

// The content that is the tokens {a, b}: one block of two tokens.
std::vector<TokenId> tokens_of(int content) { return {content / 60000, content % 60000}; }

class Store {
 public:
  Store(const std::string& policy, int32_t block_count)
      : options_{.block_count = block_count, .block_token_count = 2},
        strategy_(make_eviction_policy(policy, {.blocks = options_}, {})),
        blocks_(options_, *strategy_) {
    strategy_->attach(blocks_, latency_);
  }
  // Found (true) or computed, then released at once, so that every stored block can go.
  bool access(int content, int32_t priority = 0) {
    ++now_;
    blocks_.set_time(now_, static_cast<uint64_t>(now_));
    const std::vector<TokenId> tokens = tokens_of(content);
    const PrefixKey key = child_key(root_key(0), tokens);
    std::vector<BlockId> table;
    blocks_.match(0, std::span(&key, 1), tokens, table);
    const bool hit = !table.empty();
    if (hit) {
      blocks_.note_hits(table, priority);
      blocks_.share(table);
    } else {
      EXPECT_TRUE(blocks_.try_extend(table, 1));
      EXPECT_TRUE(blocks_.try_publish(
          table, {.index = 0, .content = {key, 0, kNoBlock, tokens}, .owner = {.priority = priority}}));
    }
    blocks_.release(table);
    return hit;
  }
  void check() const {
    blocks_.check_invariants();
    EXPECT_EQ(strategy_->instance().strike_count(), 0);
  }

 private:
  KvBlocks::Options options_;
  std::unique_ptr<EvictAdapter> strategy_;
  KvBlocks blocks_;
  LatencyModel latency_{{0.0, 1000.0, 0.0, 0.0, 0.0}};
  TimeNs now_ = 0;
};

std::vector<bool> hits_of(const std::string& policy, const std::vector<int>& trace) {
  Store store(policy, kBlocks);
  std::vector<bool> hits;
  for (const int content : trace) hits.push_back(store.access(content));
  store.check();
  return hits;
}

// What a reference keeps of a stored content.
struct Entry {
  int content;
  int64_t created, last_use;
  int hits = 0;
};

// Strategies that give every content a key: the smallest goes, ties by last use.
std::vector<bool> reference_by_key(const std::vector<int>& trace,
                                   const std::function<std::pair<int64_t, int64_t>(const Entry&)>& key) {
  std::vector<Entry> stored;
  std::vector<bool> hits;
  int64_t now = 0;
  for (const int content : trace) {
    ++now;
    const auto found = std::ranges::find(stored, content, &Entry::content);
    hits.push_back(found != stored.end());
    if (found != stored.end()) {
      ++found->hits;
      found->last_use = now;
      continue;
    }
    if (stored.size() == kBlocks) {
      stored.erase(std::ranges::min_element(stored, {}, [&](const Entry& e) { return std::pair(key(e), e.last_use); }));
    }
    stored.push_back({content, now, now});
  }
  return hits;
}

TEST(Eviction, KeyedStrategiesEqualTheirDefinition) {
  const auto trace = trace_of(1, 20000);
  using E = const Entry&;
  const std::map<std::string, std::function<std::pair<int64_t, int64_t>(E)>> strategies = {
      {"lru", [](E e) { return std::pair<int64_t, int64_t>(e.last_use, 0); }},
      {"mru", [](E e) { return std::pair<int64_t, int64_t>(-e.last_use, 0); }},
      {"fifo", [](E e) { return std::pair<int64_t, int64_t>(e.created, 0); }},
      {"filo", [](E e) { return std::pair<int64_t, int64_t>(-e.created, 0); }},
      {"lfu", [](E e) { return std::pair<int64_t, int64_t>(e.hits, e.last_use); }},
      {"slru", [](E e) { return std::pair<int64_t, int64_t>(e.hits >= 2, e.last_use); }},
      {"slru:protected_hits=4", [](E e) { return std::pair<int64_t, int64_t>(e.hits >= 4, e.last_use); }},
      {"priority", [](E e) { return std::pair<int64_t, int64_t>(0, e.last_use); }},  // all of one priority
  };
  std::map<std::string, int64_t> counts;
  for (const auto& [name, key] : strategies) {
    const auto hits = hits_of(name, trace);
    EXPECT_EQ(hits, reference_by_key(trace, key)) << name;
    counts[name] = std::ranges::count(hits, true);
  }
  EXPECT_GT(counts["lru"], counts["fifo"]);
  EXPECT_GT(counts["slru"], counts["lru"]);  // scans do not push out what is shared
}

// NSDI'24, algorithm 1, on a list: front = newest.
TEST(Eviction, SieveEqualsThePaper) {
  const auto trace = trace_of(2, 20000);
  struct Node {
    int content;
    bool visited;
  };
  std::list<Node> queue;
  auto hand = queue.end();
  std::vector<bool> hits;
  for (const int content : trace) {
    const auto found = std::ranges::find(queue, content, &Node::content);
    hits.push_back(found != queue.end());
    if (found != queue.end()) {
      found->visited = true;
      continue;
    }
    if (queue.size() == kBlocks) {
      if (hand == queue.end()) hand = std::prev(queue.end());
      while (hand->visited) {
        hand->visited = false;
        hand = hand == queue.begin() ? std::prev(queue.end()) : std::prev(hand);
      }
      const auto victim = hand;
      hand = hand == queue.begin() ? queue.end() : std::prev(hand);
      queue.erase(victim);
    }
    queue.push_front({content, false});
  }
  EXPECT_EQ(hits_of("sieve", trace), hits);
}

// SOSP'23 (libCacheSim's parameters: small 10 %, ghost 90 %, two hits earn a place in main, counters up to 3).
TEST(Eviction, S3FifoEqualsThePaper) {
  const auto trace = trace_of(3, 20000);
  struct Node {
    int content;
    int hits;
  };
  std::deque<Node> small, main;
  std::deque<int> ghost;
  std::vector<bool> hits;
  const auto find = [](std::deque<Node>& queue, int content) {
    return std::ranges::find(queue, content, &Node::content);
  };
  const auto evict = [&] {
    const auto evict_main = [&] {
      for (;;) {
        Node node = main.front();
        main.pop_front();
        if (node.hits == 0) return;
        main.push_back({node.content, node.hits - 1});
      }
    };
    if (small.size() < 4 && !main.empty()) return evict_main();
    while (!small.empty()) {
      const Node node = small.front();
      small.pop_front();
      if (node.hits < 2) {
        std::erase(ghost, node.content);
        ghost.push_back(node.content);
        if (ghost.size() > kBlocks - 4) ghost.pop_front();
        return;
      }
      main.push_back({node.content, 0});
    }
    evict_main();
  };
  for (const int content : trace) {
    auto in_small = find(small, content), in_main = find(main, content);
    const bool hit = in_small != small.end() || in_main != main.end();
    hits.push_back(hit);
    if (hit) {
      Node& node = in_small != small.end() ? *in_small : *in_main;
      node.hits = std::min(node.hits + 1, 3);
      continue;
    }
    if (small.size() + main.size() == kBlocks) evict();
    if (std::erase(ghost, content) > 0) {
      main.push_back({content, 0});
    } else {
      small.push_back({content, 0});
    }
  }
  EXPECT_EQ(hits_of("s3fifo", trace), hits);
}

// The oldest that are remembered never come back and never have to make room, while all others come and go.
TEST(Eviction, S3FifoKeepsNothingOfWhatItForgot) {
  Store store("s3fifo", 1000);
  for (int once = 0; once < 300; ++once) store.access(100'000 + once);
  size_t before = 0;
  for (int round = 0; round < 60; ++round) {
    if (round == 20) before = ::mallinfo2().uordblks;
    for (int content = 0; content < 1200; ++content) store.access(content);
  }
  store.check();
  EXPECT_LT(::mallinfo2().uordblks, before + 32 * 1024);  // what was forgotten would be 85 KB
}

// Cherkasova 1998 with one size and one cost: worth = L + (hits + 1) * cost at the time of the last use.
TEST(Eviction, GdsfEqualsItsDefinition) {
  const auto trace = trace_of(4, 20000);
  struct Node {
    int content;
    int64_t worth, last_use;
    int hits;
  };
  std::vector<Node> stored;
  std::vector<bool> hits;
  int64_t inflation = 0, now = 0;
  const int64_t cost = 2 * 1000;  // two tokens at 1000 ns
  for (const int content : trace) {
    ++now;
    const auto found = std::ranges::find(stored, content, &Node::content);
    hits.push_back(found != stored.end());
    if (found != stored.end()) {
      ++found->hits;
      found->last_use = now;
      found->worth = inflation + (found->hits + 1) * cost;
      continue;
    }
    if (stored.size() == kBlocks) {
      const auto victim =
          std::ranges::min_element(stored, {}, [](const Node& n) { return std::pair(n.worth, n.last_use); });
      inflation = std::max(inflation, victim->worth);
      stored.erase(victim);
    }
    stored.push_back({content, inflation + cost, now, 0});
  }
  EXPECT_EQ(hits_of("gdsf", trace), hits);
}

// A chain of five blocks, and one that was asked for again: in a block's two tokens at the chain's end layers see 9 and
// 10 tokens, or 2 each where all have a window of two; the other block's see 1 and 2 and count twice.
TEST(Eviction, CostsAreOfWhatLayersSee) {
  for (const bool windowed : {false, true}) {
    const KvBlocks::Options options{.block_count = 6, .block_token_count = 2, .local_window = 2};
    SchedulerSetup setup{.blocks = options};
    setup.config.local_share = windowed ? 1.0 : 0.0;
    const auto strategy = make_eviction_policy("gdsf", setup, {});
    KvBlocks blocks(options, *strategy);
    const LatencyModel latency({0.0, 0.0, 0.0, 1000.0, 0.0, 0.0});
    strategy->attach(blocks, latency);
    const auto store = [&](int32_t count, TokenId first) {
      std::vector<BlockId> table;
      EXPECT_TRUE(blocks.try_extend(table, count));
      PrefixKey key = root_key(0);
      for (int32_t i = 0; i < count; ++i) {
        const std::vector<TokenId> tokens = {first, i};
        key = child_key(key, tokens);
        const BlockId parent = i == 0 ? kNoBlock : table[static_cast<size_t>(i) - 1];
        EXPECT_TRUE(blocks.try_publish(table, {.index = i, .content = {key, 0, parent, tokens}, .owner = {}}));
      }
      return table;
    };
    std::vector<BlockId> chain = store(5, 1), other = store(1, 2);
    blocks.note_hits(other, 0);
    const BlockId chain_end = chain.back(), alone = other.front();
    blocks.release(chain);
    blocks.release(other);
    std::vector<BlockId> taken;
    EXPECT_TRUE(blocks.try_extend(taken, 1));
    EXPECT_EQ(taken.front(), windowed ? chain_end : alone);
    blocks.release(taken);
  }
}

// Conversations of several turns. tlru first drops what a turn can do without: those tails that would be computed anew
// within the threshold; the heads that keep long conversations fast stay.
TEST(Eviction, TlruKeepsTheHeadsOfLongConversations) {
  const auto longest_prefill = [](const std::string& policy) {
    WorldOptions options;
    options.config = {.max_num_seqs = 1, .max_num_batched_tokens = 512, .max_model_len = 400, .max_requests = 100};
    options.blocks = {.block_count = 120, .block_token_count = 4};
    LoadedWorld world(options, "", policy);
    Rng rng(3);
    std::vector<std::vector<TokenId>> conversations;
    for (int i = 0; i < 6; ++i) {
      std::vector<TokenId> prompt;
      for (int k = 0; k < (i < 2 ? 150 : 30); ++k) prompt.push_back(rng.between(0, 63));
      conversations.push_back(prompt);
    }
    int32_t longest = 0;
    for (int turn = 0; turn < 5; ++turn) {
      for (size_t c = 0; c < conversations.size(); ++c) {
        const int64_t before = world->scheduler().stats().scheduled_tokens;
        const uint64_t id = world->add({.prompt = conversations[c], .max_tokens = 5});
        world->run();
        if (turn > 0) {
          longest = std::max(longest, static_cast<int32_t>(world->scheduler().stats().scheduled_tokens - before));
        }
        auto& tokens = conversations[c];
        tokens.insert(tokens.end(), world->record(id).output.begin(), world->record(id).output.end());
        for (int k = 0; k < 4; ++k) tokens.push_back(rng.between(0, 63));
      }
    }
    EXPECT_EQ(world.strikes(), 0);
    return longest;
  };
  EXPECT_LT(longest_prefill("tlru:threshold_tokens=80,next_prompt_tokens=10"), longest_prefill("lru"));
}

class ShippedStrategy : public testing::TestWithParam<const char*> {};

// With chains, sharing, preemption and overlap: no mistake, no broken invariant, and the file decides as the built-in.
TEST_P(ShippedStrategy, ServesAPressedWorkloadWithoutAMistake) {
  const auto decisions = [](const std::string& strategy) {
    WorldOptions options;
    options.config = {.max_num_seqs = 6, .max_num_batched_tokens = 48, .max_model_len = 120, .max_requests = 500};
    options.blocks = {.block_count = 60, .block_token_count = 4};
    options.overlap = true;
    LoadedWorld world(options, "", strategy);
    Rng rng(5);
    std::vector<std::string> plans;
    for (int i = 0; i < 800; ++i) {
      if (rng.chance(0.25)) {
        RequestOptions request;
        const int32_t count = rng.between(1, 60), shared = rng.between(0, count), family = rng.between(0, 4);
        for (int32_t k = 0; k < count; ++k) {
          request.prompt.push_back(k < shared ? (family * 11 + k) % 60 : rng.between(0, 63));
        }
        request.max_tokens = rng.between(1, 20);
        request.priority = rng.between(-3, 3);
        world->add(request);
      }
      world->step();
      plans.push_back(world->last_plan_text());
      if (i % 50 == 0) world->scheduler().check_invariants();
    }
    world->run();
    EXPECT_EQ(world.strikes(), 0);
    EXPECT_GT(world->blocks().evicted_total(), 100);
    return plans;
  };
  const std::string name = GetParam();
  const std::string file = name == "priority" ? "evict-priority" : name;
  EXPECT_EQ(decisions(name), decisions(shipped_plugin(file)));
}
INSTANTIATE_TEST_SUITE_P(All, ShippedStrategy,
                         testing::Values("lru", "lfu", "fifo", "mru", "filo", "slru", "priority", "tlru", "s3fifo",
                                         "sieve", "gdsf"));

// Who finds a block needs it as much as if it had computed it (SGLang: a node has the best priority of those that
// pass).
TEST(EvictPriority, ABlockIsAsImportantAsItsMostImportantUser) {
  Store store("priority", 3);
  store.access(1, 5);
  EXPECT_TRUE(store.access(1, 0));
  store.access(2, 3);
  store.access(3, 3);
  EXPECT_TRUE(store.access(1, 7)) << "one that is less important takes nothing away";
  store.access(4, 3);  // in the place of 2
  EXPECT_TRUE(store.access(1, 5));
  EXPECT_FALSE(store.access(2, 3));
  store.check();
}

}  // namespace
}  // namespace inflight::test
