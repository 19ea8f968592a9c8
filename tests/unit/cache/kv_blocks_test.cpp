// SPDX-License-Identifier: Apache-2.0
// Goal: blocks are shared, stored and evicted by content, leaves first, least recently used first, never while
// referenced. Method: small scripted cases with two-token blocks; a recording strategy sees every notification.
#include "cache/kv_blocks.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace inflight {
namespace {

constexpr int32_t kWidth = 2;

// A sequence reduced to what concerns blocks.
struct Holder {
  std::vector<TokenId> tokens;
  std::vector<BlockId> table;
  std::vector<PrefixKey> keys;
};

class KvBlocksTest : public testing::Test {
 protected:
  EvictPolicy lru_;
  KvBlocks blocks_{{.block_count = 6, .block_token_count = kWidth}, lru_};

  static std::vector<PrefixKey> keys_of(const std::vector<TokenId>& tokens, uint64_t salt) {
    std::vector<PrefixKey> keys;
    PrefixKey key = root_key(salt);
    for (size_t i = 0; i + kWidth <= tokens.size(); i += kWidth) {
      key = child_key(key, std::span(tokens).subspan(i, kWidth));
      keys.push_back(key);
    }
    return keys;
  }

  // Admits `tokens`: matches, shares, extends, publishes every full block.
  Holder admit(std::vector<TokenId> tokens, uint64_t salt = 0) {
    Holder holder{std::move(tokens), {}, {}};
    holder.keys = keys_of(holder.tokens, salt);
    blocks_.match(salt, holder.keys, holder.tokens, holder.table);
    blocks_.note_hits(holder.table, 0);
    blocks_.share(holder.table);
    const auto hits = static_cast<int32_t>(holder.table.size());
    const auto wanted = static_cast<int32_t>((holder.tokens.size() + 1) / kWidth) - hits;
    EXPECT_TRUE(blocks_.try_extend(holder.table, wanted));
    for (size_t i = static_cast<size_t>(hits); i < holder.keys.size(); ++i) {
      EXPECT_TRUE(blocks_.try_publish(holder.table, full(holder, i, salt)));
    }
    return holder;
  }

  static KvBlocks::FullBlock full(const Holder& holder, size_t i, uint64_t salt = 0) {
    const BlockId parent = i > 0 ? holder.table[i - 1] : kNoBlock;
    const auto tokens = std::span(holder.tokens).subspan(i * kWidth, kWidth);
    return {.index = static_cast<int32_t>(i), .content = {holder.keys[i], salt, parent, tokens}, .owner = {}};
  }

  int32_t stored_prefix(const std::vector<TokenId>& tokens, uint64_t salt = 0) {
    std::vector<BlockId> found;
    blocks_.match(salt, keys_of(tokens, salt), tokens, found);
    return static_cast<int32_t>(found.size());
  }

  void TearDown() override { blocks_.check_invariants(); }
};

TEST_F(KvBlocksTest, RunningSequencesShareTheirPrefix) {
  Holder a = admit({1, 2, 3, 4, 5});
  Holder b = admit({1, 2, 3, 9});
  EXPECT_EQ(a.table[0], b.table[0]);
  EXPECT_NE(a.table[1], b.table[1]);
  EXPECT_EQ(blocks_.pool().references(a.table[0]), 2);
  EXPECT_EQ(blocks_.freeable_count(b.table), 1);
  EXPECT_EQ(blocks_.pool().referenced_count(), 4);
}

TEST_F(KvBlocksTest, ReleasedFullBlocksStayUntilTheirRoomIsNeeded) {
  Holder a = admit({1, 2, 3, 4, 5});
  blocks_.release(a.table);
  EXPECT_EQ(blocks_.available_count(), 6);
  EXPECT_EQ(blocks_.pool().stored_count(), 2);  // the half-filled third one is free
  EXPECT_EQ(stored_prefix({1, 2, 3, 4}), 2);
  std::vector<BlockId> all;
  EXPECT_FALSE(blocks_.try_extend(all, 7));
  EXPECT_TRUE(all.empty());
  EXPECT_TRUE(blocks_.try_extend(all, 6));
  EXPECT_EQ(stored_prefix({1, 2}), 0);
  EXPECT_EQ(blocks_.evicted_total(), 2);
  blocks_.release(all);
}

// checklist 92: with the next test: no node with children or users goes.
TEST_F(KvBlocksTest, EvictsLeavesBeforeParentsAndOldBeforeNew) {
  Holder a = admit({1, 2, 3, 4});
  Holder b = admit({1, 2, 5, 6});
  blocks_.release(b.table);
  blocks_.release(a.table);
  std::vector<BlockId> taken;
  ASSERT_TRUE(blocks_.try_extend(taken, 4));  // 3 free, 1 evicted
  EXPECT_EQ(stored_prefix({1, 2, 5, 6}), 1);  // b's tail went first
  EXPECT_EQ(stored_prefix({1, 2, 3, 4}), 2);
  ASSERT_TRUE(blocks_.try_extend(taken, 1));
  EXPECT_EQ(stored_prefix({1, 2, 3, 4}), 1);  // then a's tail, the shared root last
  blocks_.release(taken);
}

TEST_F(KvBlocksTest, NeverEvictsWhatIsReferenced) {
  Holder a = admit({1, 2, 3, 4});
  std::vector<BlockId> taken;
  EXPECT_FALSE(blocks_.try_extend(taken, 5));
  EXPECT_TRUE(blocks_.try_extend(taken, 4));
  EXPECT_EQ(stored_prefix({1, 2, 3, 4}), 2);
  blocks_.release(taken);
  blocks_.release(a.table);
}

TEST_F(KvBlocksTest, SharingPinsStoredBlocks) {
  Holder a = admit({1, 2, 3, 4});
  const std::vector<BlockId> table = a.table;
  blocks_.release(a.table);
  EXPECT_EQ(blocks_.stored_among(table), 2);
  Holder b = admit({1, 2, 3, 4});
  EXPECT_EQ(b.table, table);
  EXPECT_EQ(blocks_.stored_among(table), 0);
  EXPECT_EQ(blocks_.available_count(), 4);
  EXPECT_EQ(blocks_.tree().node(table[0]).hit_count, 1);
  Holder c = b;
  blocks_.share(c.table);  // a use that found nothing
  EXPECT_EQ(blocks_.tree().node(table[0]).hit_count, 1);
}

TEST_F(KvBlocksTest, NamespacesDoNotShare) {
  Holder a = admit({1, 2, 3, 4}, 1);
  EXPECT_EQ(stored_prefix({1, 2, 3, 4}, 2), 0);
  EXPECT_EQ(stored_prefix({1, 2, 3, 4}, 1), 2);
}

TEST_F(KvBlocksTest, TwinsBecomeOne) {
  Holder a = admit({1, 2});
  // b computed the same content without knowing of a.
  Holder b{{1, 2, 3, 4}, {}, keys_of({1, 2, 3, 4}, 0)};
  ASSERT_TRUE(blocks_.try_extend(b.table, 2));
  EXPECT_FALSE(blocks_.try_publish(b.table, full(b, 0)));
  blocks_.adopt_twin(b.table, full(b, 0), false);
  EXPECT_EQ(b.table[0], a.table[0]);
  EXPECT_TRUE(blocks_.try_publish(b.table, full(b, 1)));
  EXPECT_EQ(blocks_.pool().free_count(), 4);
  blocks_.release(a.table);
  EXPECT_EQ(stored_prefix({1, 2, 3, 4}), 2);
}

TEST(KvBlocks, WithoutPrefixCachingNothingIsStored) {
  EvictPolicy lru;
  KvBlocks blocks({.block_count = 2, .block_token_count = kWidth, .prefix_caching = false}, lru);
  std::vector<BlockId> table;
  ASSERT_TRUE(blocks.try_extend(table, 2));
  blocks.release(table);
  EXPECT_EQ(blocks.pool().free_count(), 2);
}

// Writes down what it is told and evicts the largest block id first.
class Recorder final : public EvictPolicy {
 public:
  void on_insert(std::span<const BlockId> blocks) override { note("insert", blocks); }
  void on_hit(std::span<const BlockId> blocks) override { note("hit", blocks); }
  void on_pin(std::span<const BlockId> blocks) override { note("pin", blocks); }
  void on_release(std::span<const BlockId> blocks) override { note("release", blocks); }
  void on_evict(BlockId block) override { note("evict", std::span(&block, 1)); }
  EvictKey rank(BlockId block, int64_t) override { return {-to_integer(block), 0}; }
  std::string log;

 private:
  void note(const char* what, std::span<const BlockId> blocks) {
    log += what;
    for (const BlockId block : blocks) log += " " + std::to_string(to_integer(block));
    log += "; ";
  }
};

TEST(KvBlocks, TellsTheStrategyEverythingAndFollowsItsRank) {
  Recorder policy;
  KvBlocks blocks({.block_count = 3, .block_token_count = kWidth}, policy);
  const std::vector<TokenId> tokens[] = {{1, 1}, {2, 2}};
  std::vector<BlockId> tables[2];
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(blocks.try_extend(tables[i], 1));
    ASSERT_TRUE(blocks.try_publish(
        tables[i], {.index = 0, .content = {child_key(root_key(0), tokens[i]), 0, kNoBlock, tokens[i]}, .owner = {}}));
  }
  blocks.release(tables[0]);
  blocks.release(tables[1]);
  std::vector<BlockId> found;
  blocks.match(0, std::vector<PrefixKey>{child_key(root_key(0), tokens[0])}, tokens[0], found);
  blocks.note_hits(found, 0);
  blocks.share(found);
  blocks.release(found);
  std::vector<BlockId> taken;
  ASSERT_TRUE(blocks.try_extend(taken, 2));  // block 1 goes, though block 0 was used earlier
  EXPECT_EQ(policy.log, "insert 0; insert 1; release 0; release 1; hit 0; pin 0; release 0; evict 1; ");
  blocks.release(taken);
}

// Counts what it is asked and told.
class Counter final : public EvictPolicy {
 public:
  void on_evict(BlockId) override { ++calls; }
  EvictKey rank(BlockId, int64_t release_tick) override {
    ++calls;
    return {release_tick, 0};
  }
  int64_t calls = 0;
};

// checklist 79: a block costs the strategy nothing while one is free, and at most two calls (who goes, and its parent's
// rank) when the pool is full, whatever its size and however much of it is held. Times: `inflight bench sched`.
TEST(KvBlocks, ABlockCostsTheSameAtAnyOccupancy) {
  for (const int32_t size : {200, 2000, 20000}) {
    for (const int32_t held_percent : {0, 50, 95}) {
      Counter policy;
      KvBlocks blocks({.block_count = size, .block_token_count = kWidth}, policy);
      std::vector<BlockId> held;
      ASSERT_TRUE(blocks.try_extend(held, size * held_percent / 100));
      std::vector<BlockId> table;
      ASSERT_TRUE(blocks.try_extend(table, 8));
      EXPECT_EQ(policy.calls, 0);
      blocks.release(table);
      // The rest becomes one stored chain.
      const int32_t rest = blocks.available_count();
      ASSERT_TRUE(blocks.try_extend(table, rest));
      PrefixKey key = root_key(0);
      BlockId parent = kNoBlock;
      for (int32_t i = 0; i < rest; ++i) {
        const std::vector<TokenId> tokens = {i, i};
        key = child_key(key, tokens);
        ASSERT_TRUE(blocks.try_publish(table, {.index = i, .content = {key, 0, parent, tokens}, .owner = {}}));
        parent = table[static_cast<size_t>(i)];
      }
      blocks.release(table);
      policy.calls = 0;
      ASSERT_TRUE(blocks.try_extend(table, 8));
      EXPECT_EQ(policy.calls, 2 * 8) << size << ' ' << held_percent;
      blocks.release(table);
      blocks.release(held);
    }
  }
}

// Keeps its own order: names block 1 before block 0, and nonsense first.
class Ordered final : public EvictPolicy {
 public:
  bool keeps_order() const override { return true; }
  void pick(int32_t, std::vector<BlockId>& out) override { out = {BlockId{2}, BlockId{1}, BlockId{0}}; }
};

TEST(KvBlocks, TakesFromAnOrderedStrategyOnlyWhatMayGo) {
  Ordered policy;
  KvBlocks blocks({.block_count = 3, .block_token_count = kWidth}, policy);
  std::vector<TokenId> tokens = {1, 1, 2, 2};
  std::vector<BlockId> table;
  ASSERT_TRUE(blocks.try_extend(table, 2));
  PrefixKey key = root_key(0);
  BlockId parent = kNoBlock;
  for (int32_t i = 0; i < 2; ++i) {
    const auto part = std::span<const TokenId>(tokens).subspan(static_cast<size_t>(i) * kWidth, kWidth);
    key = child_key(key, part);
    ASSERT_TRUE(blocks.try_publish(table, {.index = i, .content = {key, 0, parent, part}, .owner = {}}));
    parent = table[static_cast<size_t>(i)];
  }
  blocks.release(table);
  std::vector<BlockId> taken;
  ASSERT_TRUE(blocks.try_extend(taken, 2));  // 2 was free; of 2 (gone), 1 (leaf), 0 (parent), 1 may go
  EXPECT_TRUE(blocks.tree().contains(BlockId{0}));
  EXPECT_FALSE(blocks.tree().contains(BlockId{1}));
  ASSERT_TRUE(blocks.try_extend(taken, 1));
  EXPECT_EQ(blocks.tree().node_count(), 0);
  blocks.release(taken);
  blocks.check_invariants();
}

// Names all that it knows, the newest first.
class NewestFirst final : public EvictPolicy {
 public:
  bool keeps_order() const override { return true; }
  void pick(int32_t, std::vector<BlockId>& out) override { out.assign(known.rbegin(), known.rend()); }
  void on_insert(std::span<const BlockId> blocks) override { known.insert(known.end(), blocks.begin(), blocks.end()); }
  void on_evict(BlockId block) override { std::erase(known, block); }
  std::vector<BlockId> known;
};

TEST(KvBlocks, AsksAnOrderedStrategyAgainInTheNextStep) {
  NewestFirst policy;
  KvBlocks blocks({.block_count = 3, .block_token_count = kWidth}, policy);
  const auto store = [&](TokenId token) {
    const std::vector<TokenId> tokens(kWidth, token);
    std::vector<BlockId> table;
    ASSERT_TRUE(blocks.try_extend(table, 1));
    const PrefixKey key = child_key(root_key(0), tokens);
    ASSERT_TRUE(blocks.try_publish(table, {.index = 0, .content = {key, 0, kNoBlock, tokens}, .owner = {}}));
    blocks.release(table);
  };
  for (const TokenId token : {1, 2, 3}) store(token);
  blocks.set_time(1, 1);
  const BlockId newest = policy.known.back();
  store(4);  // in the place of 3; 2 and 1 were named, too
  ASSERT_EQ(policy.known.back(), newest);
  blocks.set_time(2, 2);
  store(5);
  EXPECT_EQ(policy.known.back(), newest) << "5 is in the place of 4, not of 2";
}

// A strategy that learns of blocks by on_insert() must know a block's parent before. The root was released last but
// one, and a leaf before it.
TEST_F(KvBlocksTest, AnotherStrategyLearnsOfParentsBeforeChildren) {
  Holder a = admit({1, 2, 3, 4});
  blocks_.release(a.table);
  blocks_.set_time(1, 1);
  Holder b = admit({1, 2, 5, 6});
  blocks_.release(b.table);
  blocks_.set_time(2, 2);
  Holder c = admit({7, 8});
  Recorder recorder;
  blocks_.set_policy(recorder);
  EXPECT_EQ(recorder.log, "insert 0 1 2 3; release 1 0 2; ");
}

// Keys of its own until it is taken out.
class TakenOut final : public EvictPolicy {
 public:
  bool ranks() const override { return active; }
  EvictKey rank(BlockId block, int64_t release_tick) override {
    return active ? EvictKey{1'000'000 - to_integer(block), 0} : EvictPolicy::rank(block, release_tick);
  }
  bool active = true;
};

TEST(KvBlocks, WithoutItsStrategyEveryBlockIsRankedAgain) {
  for (const bool taken_out : {false, true}) {
    TakenOut policy;
    KvBlocks blocks({.block_count = 4, .block_token_count = kWidth}, policy);
    const auto store = [&](TokenId content) {
      const std::vector<TokenId> tokens = {content, content};
      std::vector<BlockId> table;
      ASSERT_TRUE(blocks.try_extend(table, 1));
      ASSERT_TRUE(blocks.try_publish(
          table, {.index = 0, .content = {child_key(root_key(0), tokens), 0, kNoBlock, tokens}, .owner = {}}));
      blocks.release(table);
    };
    store(1);
    store(2);
    if (taken_out) policy.active = false;
    blocks.set_time(1, 1);
    store(3);
    store(4);
    std::vector<BlockId> taken;
    ASSERT_TRUE(blocks.try_extend(taken, 2));
    // By its own keys the newest go first, by the built-in rule the oldest.
    EXPECT_EQ(taken, taken_out ? (std::vector{BlockId{0}, BlockId{1}}) : (std::vector{BlockId{3}, BlockId{2}}));
    blocks.release(taken);
    blocks.check_invariants();
  }
}

TEST(KvBlocks, AnotherStrategyLearnsOfWhatIsStored) {
  EvictPolicy lru;
  KvBlocks blocks({.block_count = 3, .block_token_count = kWidth}, lru);
  const std::vector<TokenId> tokens = {1, 1};
  std::vector<BlockId> table;
  ASSERT_TRUE(blocks.try_extend(table, 1));
  const KvBlocks::FullBlock full{
      .index = 0, .content = {child_key(root_key(0), tokens), 0, kNoBlock, tokens}, .owner = {}};
  ASSERT_TRUE(blocks.try_publish(table, full));
  blocks.release(table);
  Recorder recorder;
  blocks.set_policy(recorder);
  EXPECT_EQ(recorder.log, "insert 0; release 0; ");
  blocks.clear_stored();
  EXPECT_EQ(blocks.pool().free_count(), 3);
  blocks.check_invariants();
}

}  // namespace
}  // namespace inflight
