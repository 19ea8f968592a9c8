// SPDX-License-Identifier: Apache-2.0
// The shape of a decoder-only transformer: everything the forward pass, the memory planner and the simulator need to
// know about a model besides its weights. Letters as in docs/GLOSSARY.md.
#pragma once

#include <cstdint>
#include <string>

namespace inflight {

// Which pairs of a head's numbers are rotated together.
enum class RopeStyle : int32_t {
  Interleaved = 0,  // (0,1), (2,3), ...: GGUF's "llama", whose Q and K rows were permuted for it
  HalfSplit = 1,    // (0,D/2), (1,D/2+1), ...: GPT-NeoX, Hugging Face, GGUF's "qwen2"
};

struct RopeScaling {
  enum class Kind : int32_t { None = 0, Linear = 1, Llama3 = 2, Yarn = 3 };
  Kind kind = Kind::None;
  float factor = 1.0F;                  // positions are divided by it (Linear), or low frequencies (Llama3, Yarn)
  float low_frequency_factor = 1.0F;    // Llama3 only
  float high_frequency_factor = 4.0F;   // Llama3 only
  int32_t original_context_length = 0;  // Llama3 and Yarn
  // Yarn only: pairs that turn more often than beta_fast in the original context stay as they are, those that turn less
  // often than beta_slow are slowed down.
  float beta_fast = 32.0F;
  float beta_slow = 1.0F;
  float magnitude = 1.0F;  // cosines and sines are multiplied by it
};

struct ModelSpec {
  std::string architecture;  // "llama", "qwen2", "qwen3"
  std::string name;
  int32_t layer_count = 0;        // L
  int32_t hidden_size = 0;        // E
  int32_t feed_forward_size = 0;  // F
  int32_t head_count = 0;         // H query heads
  int32_t kv_head_count = 0;      // G, divides H
  int32_t head_size = 0;          // D, even
  int32_t vocabulary_size = 0;    // V
  int32_t context_length = 0;     // tokens a sequence may have at most
  int32_t sliding_window = 0;     // last tokens that a token attends to, itself included; 0 = all
  float norm_epsilon = 1e-5F;
  RopeStyle rope_style = RopeStyle::Interleaved;
  int32_t rope_dimension_count = 0;  // the first numbers of each head that are rotated; even, <= D
  float rope_base = 10000.0F;
  RopeScaling rope_scaling;
  // What an embedding is made of: "mean", "last", or a kind that is not computed here ("cls", "rank").
  std::string pooling = "mean";

  // ERRORS: CorruptFile naming the field, the value and the range.
  void validate() const;
};

}  // namespace inflight
