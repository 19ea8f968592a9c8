// SPDX-License-Identifier: Apache-2.0
// Goal: no damage to a model file does more than make an Error: no crash, no hang, no large
// allocation; what still loads can be read to its last byte.
// Method: a small model with a vocabulary, quantised and not; cut at every byte of its header;
// thousands of seeded mutations (bits, telling numbers, removed and doubled stretches). Runs under
// ASan and UBSan too.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <new>

#include "base/rng.h"
#include "model/model_loader.h"
#include "support/expect_error.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"

#ifndef INFLIGHT_SANITIZED  // sanitizers bring their own operator new
namespace {
std::atomic<size_t> largest_allocation{0};
}  // namespace

void* operator new(size_t size) {
  size_t largest = largest_allocation;
  while (size > largest && !largest_allocation.compare_exchange_weak(largest, size)) {
  }
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace inflight::test {
namespace {

using Bytes = std::vector<std::byte>;

GgufWriter small_model() {
  SyntheticModel model;
  model.spec.layer_count = 1;
  model.spec.vocabulary_size = 262;
  model.spec.hidden_size = 32;
  model.spec.feed_forward_size = 32;
  model.spec.head_count = 2;
  model.spec.kv_head_count = 1;
  model.matrix_type = TensorType::Q8_0;
  model.output_type = TensorType::F16;
  model.query_key_value_bias = true;
  model.with_vocabulary = true;
  GgufWriter writer = build_model(model);
  writer.key_u32("general.alignment", 32).key_strings("tokenizer.ggml.merges", {"a b"});
  // An array of arrays: {uint8 {1, 2}, string {"x"}}.
  writer.key_raw("nested", 9,
                 ByteWriter()
                     .number(9U)
                     .number(uint64_t{2})
                     .number(0U)
                     .number(uint64_t{2})
                     .number(uint8_t{1})
                     .number(uint8_t{2})
                     .number(8U)
                     .number(uint64_t{1})
                     .string("x")
                     .bytes());
  return writer;
}

// Layers of which each is something else, with numbers of their own.
GgufWriter small_hybrid() {
  SyntheticModel model;
  model.make_nemotron_h(true);
  model.spec.layer_count = 3;
  model.spec.mixing = {Mixing::State, Mixing::None, Mixing::Attention};
  model.spec.feed_forward_sizes.resize(3);
  model.spec.vocabulary_size = 32;
  model.spec.hidden_size = 32;
  model.spec.expert_count = 2;
  return build_model(model);
}

// Reads whatever there is to be read; the sum keeps the compiler from leaving it out.
uint64_t read_all(const LoadedModel& model) {
  uint64_t sum = model.vocabulary.tokens.size() + model.vocabulary.chat_template.size();
  const auto add = [&sum](std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) sum += static_cast<uint64_t>(byte);
  };
  for (const GgufValue& value : model.file.metadata()) add(value.bytes);
  for (const GgufTensor& tensor : model.file.tensors()) add(tensor.bytes);
  for (const LayerWeights& layer : model.weights.layers) add(layer.down.bytes);
  for (const std::string& token : model.vocabulary.tokens) sum += token.size();
  model.spec.validate();
  return sum;
}

// True when the file loads; false for an Error, whose message must be one line about the file.
bool loads(const std::string& path) {
  try {
    return read_all(load_model(path)) > 0;
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(error.code(), ErrorCode::Internal) << message;
    EXPECT_EQ(message.find(path), 0U) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), path.size() + 800) << message;
    return false;
  }
}

TEST(DamagedGguf, FailsWhereverItIsCut) {
  const TempFolder folder;
  const GgufWriter writer = small_model();
  const Bytes whole = writer.bytes();
  const std::string path = folder.write("m.gguf", whole);
  ASSERT_TRUE(loads(path));
  for (size_t size = whole.size(); size > 0;) {
    size -= size > writer.header_bytes() + 64 ? std::min<size_t>(size, 997) : 1;
    std::filesystem::resize_file(path, size);
    EXPECT_FALSE(loads(path)) << size;
  }
}

uint64_t telling_number(Rng& rng) {
  constexpr uint64_t kNumbers[] = {0,          1,          2,          4,          8,
                                   13,         31,         32,         255,        65535,
                                   65536,      1ULL << 20, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
                                   1ULL << 28, 1ULL << 32, 1ULL << 61, 1ULL << 62, 0x7FFFFFFFFFFFFFFF,
                                   1ULL << 63, ~0ULL - 31, ~0ULL};
  return kNumbers[rng.below(std::size(kNumbers))];
}

void damage(Rng& rng, size_t header_bytes, Bytes& bytes) {
  const size_t at = rng.below(std::min(header_bytes, bytes.size()));
  const auto position = bytes.begin() + static_cast<int64_t>(at);
  const size_t rest = std::min<size_t>(bytes.size() - at, 64);
  switch (rng.below(5)) {
    case 0:
      bytes[at] ^= static_cast<std::byte>(1U << rng.below(8));
      break;
    case 1:
      bytes[at] = static_cast<std::byte>(rng.below(256));
      break;
    case 2: {
      const uint64_t number = telling_number(rng);
      const auto raw = std::as_bytes(std::span(&number, 1)).first(std::min<size_t>(rest, rng.chance(0.5) ? 8 : 4));
      std::copy(raw.begin(), raw.end(), position);
      break;
    }
    case 3:
      bytes.erase(position, position + static_cast<int64_t>(1 + rng.below(rest)));
      break;
    default: {
      const Bytes doubled(position, position + static_cast<int64_t>(1 + rng.below(rest)));
      bytes.insert(position, doubled.begin(), doubled.end());
    }
  }
}

void expect_errors_or_models(const GgufWriter& writer, int seeds) {
  const TempFolder folder;
  const Bytes whole = writer.bytes();
#ifndef INFLIGHT_SANITIZED
  largest_allocation = 0;
#endif
  int loaded = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(static_cast<uint64_t>(seed));
    Bytes bytes = whole;
    for (uint64_t i = 1 + rng.below(4); i > 0; --i) damage(rng, writer.header_bytes(), bytes);
    loaded += loads(folder.write("m.gguf", bytes)) ? 1 : 0;
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(loaded, seeds / 100) << "the mutations should not all be caught at the first bytes";
  EXPECT_LT(loaded, seeds * 9 / 10);
#ifndef INFLIGHT_SANITIZED
  EXPECT_LT(largest_allocation, size_t{4} << 20) << "for files of " << whole.size() << " bytes";
#endif
  testing::Test::RecordProperty("loaded", loaded);
}

// Whose keys tell of each layer what it has.
TEST(DamagedGguf, OfLayersThatDifferIsAnErrorOrAModel) {
  SyntheticModel model;
  model.make_large_gemma4(true);
  expect_errors_or_models(build_model(model), 2000);
}

TEST(DamagedGguf, IsAnErrorOrAModel) { expect_errors_or_models(small_model(), 10000); }

TEST(DamagedGguf, OfAHybridIsAnErrorOrAModel) { expect_errors_or_models(small_hybrid(), 5000); }

}  // namespace
}  // namespace inflight::test
