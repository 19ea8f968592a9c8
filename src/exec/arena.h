// SPDX-License-Identifier: Apache-2.0
// Where each kind of activation lies in the one buffer that holds them all, in floats.
#pragma once

#include <cstdint>

#include "core/model_spec.h"
#include "model/weights.h"
#include "ops/stage.h"

namespace inflight {

struct ArenaSize {
  int32_t rows = 0;           // T, of a step
  int32_t logit_rows = 0;     // sampled rows computed at a time
  int32_t partial_slots = 0;  // of attention.cl
  int32_t lora_rank = 0;      // of adapters at most; 0: there are none
  int32_t copies = 0;         // of prepared rows: one for each worker of a fused step, copy_rows each
  int32_t copy_rows = 0;
};

// Of layers with experts; the tables are ints (experts.cl). X: experts, J: those of a token.
struct ExpertArena {
  int32_t logits = kNone;                   // [T][X]
  int32_t chosen = kNone, weights = kNone;  // [T][J]
  int32_t places = kNone;                   // [T][J]
  int32_t counts = kNone, active = kNone;   // [X], [1 + X * kActiveWords]
  StageRows gathered;                       // [T*J][E]
  StageRows feed_forward;                   // [T*J][F]
  int32_t out = kNone;                      // [T*J][E]
  int32_t shared = kNone;                   // [T][E]: of a shared expert that has a gate, or a norm
  StageRows routed, normed;                 // [T][E] each: of norms of their own, what routers and experts read
};

// Of layers with a state (states.cl). M: projected width, V: value width, N: value heads.
struct StateArena {
  int32_t mixed = kNone;                     // [T][M]
  int32_t gate = kNone;                      // [T][V]
  int32_t step = kNone, correction = kNone;  // [T][N]
  StageRows read;                            // [T][V]
};

// Of layers whose attention is latent (heads.cl). N, V: numbers of a head's query that are not rotated, of its values;
// R: rotated ones, C: latent rank, Q: that of queries.
struct LatentArena {
  int32_t query_down = kNone;  // [T][Q], where queries have a rank
  StageRows query_normed;      // [T][Q], likewise
  int32_t query = kNone;       // [T][H][N+R]
  StageRows query_heads;       // [H][T][N]
  StageRows attended_heads;    // [H][T][C]
  int32_t values = kNone;      // [T][H*V]
  StageRows attended;          // [T][H*V]
};

// Where layers have embeddings of their own. L: layers, P: numbers of one.
struct EmbeddingArena {
  int32_t rows = kNone, projected = kNone;  // [T][L*P] each
  int32_t last_rows = kNone;                // the same, of the last rows
  int32_t gate = kNone;                     // [T][P]
  StageRows gated;                          // [T][P]
};

struct Arena {
  int32_t hidden = 0;          // [T][E]
  int32_t query = 0;           // [T][H*D]
  int32_t query_gate = kNone;  // [T][H*D], where there are gates
  int32_t key = 0;             // [T][G*D]
  int32_t value = 0;           // [T][G*D]
  StageRows normed;            // [T][E]
  StageRows attended;          // [T][H*D], always with floats
  StageRows feed_forward;      // [T][F], of dense layers and shared experts
  int32_t added = kNone;       // [T][E]: what is normed before it is added to the hidden states
  StageRows sampled;           // [logit_rows][E]
  int32_t logits = 0;          // [logit_rows][V]
  int32_t statistics = 0;      // [logit_rows][chunks][4]
  int32_t partials = 0;        // [partial_slots][D + 2]
  int32_t statistics_chunks = 0;
  ExpertArena experts;
  StateArena states;
  LatentArena latent;
  EmbeddingArena embeddings;
  int32_t last_hidden = kNone;  // [T][E]: of the last rows, where layers share K and V
  // Where heads are normed before they are stored: as they are projected, in layers of heads of S numbers.
  int32_t projected_query = kNone;                         // [T][H*S]
  int32_t projected_key = kNone, projected_value = kNone;  // [T][G*S]
  StageRows narrowed;                                      // [T][H*S]
  // Where there are adapters, for steps that use them: the same rows with floats in any case, which A reads; gate and
  // up by themselves; and what has been multiplied by A.
  StageRows adapted_normed, adapted_feed_forward;
  int32_t gate = kNone, up = kNone;  // [T][F]
  int32_t shrunk = kNone;            // [3][T][lora_rank]
  // A worker's own copy of normed, attended, sampled rows or queries of a rank, in steps of up to copy_rows of them;
  // the next worker's lies copy_stride floats on.
  StageRows copy;
  int32_t copy_stride = 0;
  int64_t floats = 0;  // size of it all
};

// The format in which the device holds a matrix; blocks that are turned are none any more.
[[nodiscard]] PanelType panel_type(const WeightView& weight);

// Rows are laid out in the kinds (float, int8) that the weights reading them take.
// ERRORS: OutOfMemory when it would not be addressable.
[[nodiscard]] Arena lay_out_arena(const ModelSpec& spec, const ModelWeights& weights, const ArenaSize& size);

}  // namespace inflight
