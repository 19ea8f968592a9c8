// SPDX-License-Identifier: Apache-2.0
// Goal: a block is found by its whole content and nothing else (checklist 91: tokens are compared, so collisions of
// keys cannot mix contents), and the hash table survives removals. Method: forced key collisions; random
// insert/remove/find against a std::map from (salt, all tokens) to block.
#include "cache/radix_tree.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "base/error.h"
#include "base/rng.h"

namespace inflight {
namespace {

constexpr int32_t kBlockTokens = 4;

TEST(PrefixKey, DependsOnEverythingBefore) {
  const std::vector<TokenId> a = {1, 2, 3, 4}, b = {1, 2, 3, 5};
  EXPECT_EQ(child_key(root_key(0), a), child_key(root_key(0), a));
  EXPECT_NE(child_key(root_key(0), a), child_key(root_key(1), a));
  EXPECT_NE(child_key(root_key(0), a), child_key(root_key(0), b));
  EXPECT_NE(child_key(child_key(root_key(0), a), a), child_key(child_key(root_key(0), b), a));
}

TEST(RadixTree, EqualKeysWithDifferentContentAreTwoNodes) {
  RadixTree tree(8, kBlockTokens);
  const std::vector<TokenId> a = {1, 2, 3, 4}, b = {9, 9, 9, 9};
  constexpr PrefixKey kSame = 42;
  tree.insert({kSame, 0, kNoBlock, a}, BlockId{0}, {}, 0);
  EXPECT_EQ(tree.find({kSame, 0, kNoBlock, b}), std::nullopt);
  EXPECT_EQ(tree.find({kSame, 7, kNoBlock, a}), std::nullopt);  // another namespace
  tree.insert({kSame, 0, kNoBlock, b}, BlockId{1}, {}, 0);
  tree.insert({kSame, 7, kNoBlock, a}, BlockId{2}, {}, 0);
  tree.insert({kSame, 0, BlockId{0}, a}, BlockId{3}, {}, 0);
  EXPECT_EQ(tree.find({kSame, 0, kNoBlock, a}), BlockId{0});
  EXPECT_EQ(tree.find({kSame, 0, kNoBlock, b}), BlockId{1});
  EXPECT_EQ(tree.find({kSame, 7, kNoBlock, a}), BlockId{2});
  EXPECT_EQ(tree.find({kSame, 0, BlockId{0}, a}), BlockId{3});
  EXPECT_EQ(tree.find({kSame, 0, BlockId{1}, a}), std::nullopt);
  tree.remove(BlockId{1});
  EXPECT_EQ(tree.find({kSame, 7, kNoBlock, a}), BlockId{2});
  EXPECT_EQ(tree.find({kSame, 0, kNoBlock, b}), std::nullopt);
}

TEST(RadixTree, TakesNoContentTwice) {
  RadixTree tree(8, kBlockTokens);
  const std::vector<TokenId> a = {1, 2, 3, 4};
  const PrefixKey first = child_key(root_key(0), a), second = child_key(first, a);
  EXPECT_TRUE(tree.insert({first, 0, kNoBlock, a}, BlockId{5}, {}, 0));
  EXPECT_TRUE(tree.insert({second, 0, BlockId{5}, a}, BlockId{6}, {}, 0));
  EXPECT_FALSE(tree.insert({second, 0, BlockId{5}, a}, BlockId{7}, {}, 0));
  EXPECT_FALSE(tree.contains(BlockId{7}));
  EXPECT_EQ(tree.find({second, 0, BlockId{5}, a}), BlockId{6});
  EXPECT_EQ(tree.node(BlockId{5}).child_count, 1);
  EXPECT_EQ(tree.node_count(), 2);
  tree.check_invariants();
}

TEST(RadixTree, KeepsParentsAndDepths) {
  RadixTree tree(8, kBlockTokens);
  const std::vector<TokenId> a = {1, 2, 3, 4};
  const PrefixKey first = child_key(root_key(0), a), second = child_key(first, a);
  tree.insert({first, 0, kNoBlock, a}, BlockId{5}, {.priority = -1, .tenant = 3}, 100);
  tree.insert({second, 0, BlockId{5}, a}, BlockId{6}, {}, 200);
  EXPECT_EQ(tree.node(BlockId{6}).depth, 1);
  EXPECT_EQ(tree.node(BlockId{5}).child_count, 1);
  EXPECT_EQ(tree.node(BlockId{5}).owner.tenant, 3U);
  EXPECT_FALSE(tree.is_leaf(BlockId{5}));
  EXPECT_THROW(tree.remove(BlockId{5}), InternalError);
  tree.count_hit(BlockId{5}, 0, 300);
  EXPECT_EQ(tree.node(BlockId{5}).hit_count, 1);
  EXPECT_EQ(tree.node(BlockId{5}).last_use, 300);
  EXPECT_EQ(tree.node(BlockId{5}).created, 100);
  tree.check_invariants();
  tree.remove(BlockId{6});
  tree.remove(BlockId{5});
  EXPECT_EQ(tree.node_count(), 0);
}

TEST(RadixTree, AgreesWithAMapOverRandomOperations) {
  constexpr int32_t kBlocks = 64;
  RadixTree tree(kBlocks, kBlockTokens);
  using Path = std::pair<uint64_t, std::vector<TokenId>>;  // salt, every token from the start
  std::map<Path, BlockId> model;
  std::map<BlockId, Path> paths;
  std::vector<BlockId> unused;
  for (int32_t i = 0; i < kBlocks; ++i) unused.push_back(static_cast<BlockId>(i));
  Rng rng(3);
  for (int step = 0; step < 50000; ++step) {
    Path path{rng.below(2), {}};
    BlockId parent = kNoBlock;
    PrefixKey key = root_key(path.first);
    if (!paths.empty() && rng.chance(0.7)) {
      auto it = paths.begin();
      std::advance(it, static_cast<std::ptrdiff_t>(rng.below(paths.size())));
      parent = it->first;
      path = it->second;
      key = tree.node(parent).key;
    }
    std::vector<TokenId> tokens(kBlockTokens, 0);
    tokens.back() = rng.between(0, 2);  // few contents, so that many coincide
    path.second.insert(path.second.end(), tokens.begin(), tokens.end());
    const RadixTree::Content content{child_key(key, tokens), path.first, parent, tokens};
    const auto expected = model.find(path);
    const auto found = tree.find(content);
    ASSERT_EQ(found.has_value(), expected != model.end());
    if (found) {
      ASSERT_EQ(*found, expected->second);
      if (tree.is_leaf(*found) && rng.chance(0.6)) {
        tree.remove(*found);
        unused.push_back(*found);
        paths.erase(*found);
        model.erase(path);
      }
    } else if (!unused.empty()) {
      const BlockId block = unused[rng.below(unused.size())];
      std::erase(unused, block);
      tree.insert(content, block, {}, step);
      model[path] = block;
      paths[block] = path;
    }
    if (step % 500 == 0) tree.check_invariants();
  }
  EXPECT_EQ(tree.node_count(), static_cast<int32_t>(model.size()));
}

}  // namespace
}  // namespace inflight
