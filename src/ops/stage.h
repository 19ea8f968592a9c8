// SPDX-License-Identifier: Apache-2.0
// How a step is described to the device: the twin of cl_kernels/stage.cl, field by field; meanings and units are there.
#pragma once

#include <cstdint>

namespace inflight {

// Values are GGUF's type ids.
enum class PanelType : int32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_1 = 7,
  Q8_0 = 8,
  Q6_K = 14,
  IQ4_NL = 20,
  BF16 = 30,
  MXFP4 = 39
};

inline constexpr PanelType kPanelTypes[] = {PanelType::Q8_0, PanelType::Q4_0,   PanelType::Q4_1,  PanelType::Q5_1,
                                            PanelType::Q6_K, PanelType::IQ4_NL, PanelType::MXFP4, PanelType::F16,
                                            PanelType::BF16, PanelType::F32};

// Sets of them: a bit for each, as WEIGHT_TYPES of stage.cl.
using PanelTypes = uint64_t;
[[nodiscard]] constexpr PanelTypes type_bit(PanelType type) { return PanelTypes{1} << static_cast<int>(type); }
inline constexpr PanelTypes kAllPanelTypes = [] {
  PanelTypes all = 0;
  for (const PanelType type : kPanelTypes) all |= type_bit(type);
  return all;
}();

enum class Operation : int32_t {
  Embed = 0,
  Norm = 1,
  Linear = 2,
  Rope = 3,
  Attention = 4,
  Combine = 5,
  Statistics = 6,
  Sample = 7,
  Change = 8,
  Shrink = 9,  // these two in programs with adapters only
  Expand = 10,
  Swiglu = 11,  // with adapters or layers' embeddings only
  Route = 12,   // these in programs of mixtures of experts only
  Sort = 13,
  Gather = 14,
  Experts = 15,
  Merge = 16,
  Convolve = 17,  // these in programs of layers with a state only, the last two where it has matrices
  Update = 18,
  Read = 19,
  Divide = 20,  // these in programs of latent attention only
  Heads = 21,
  Widen = 22,  // these in programs whose heads are normed before they are stored only
  Narrow = 23,
};
inline constexpr int32_t kOperationCount = 24;
[[nodiscard]] constexpr bool is_plain(Operation operation) { return operation < Operation::Shrink; }  // in all programs
[[nodiscard]] constexpr bool of_experts(Operation operation) {
  return operation >= Operation::Route && operation <= Operation::Merge;
}
[[nodiscard]] constexpr bool of_states(Operation operation) {
  return operation >= Operation::Convolve && operation <= Operation::Read;
}
[[nodiscard]] constexpr bool of_heads(Operation operation) {
  return operation == Operation::Divide || operation == Operation::Heads;
}
[[nodiscard]] constexpr bool of_wide_heads(Operation operation) { return operation >= Operation::Widen; }
[[nodiscard]] const char* to_string(Operation operation);  // "embed": its kernel is embed_stage

enum class Epilogue : int32_t { Store = 0, Add = 1, Swiglu = 2, Logits = 3, Activate = 4 };
// Whether a linear layer writes the rows of the next one, which are blocks of two panels.
[[nodiscard]] constexpr bool writes_rows(Epilogue epilogue) {
  return epilogue == Epilogue::Swiglu || epilogue == Epilogue::Activate;
}

inline constexpr int32_t kNone = -1;  // an offset that is not there

struct StageWeight {
  PanelType type = PanelType::F32;
  int32_t chunk = 0;
  int32_t offset = 0;  // in units of kWeightAlignment bytes
  int32_t depth = 0;
  int32_t outputs = 0;
};
inline constexpr int32_t kWeightAlignment = 64;
inline constexpr int32_t kWeightChunksMax = 4;
inline constexpr int32_t kKvChunksMax = 4;

struct StageRows {
  int32_t floats = kNone;
  int32_t bytes = kNone;
  int32_t scales = kNone;
  int32_t sums = kNone;
};

struct EmbedArgs {
  StageWeight table;
  int32_t tokens, out;
  float scale = 1.0F;
};
struct NormArgs {
  int32_t in, rows_from, weight, depth;
  float epsilon, scale = 1.0F;
  int32_t rows;
  StageRows out;
  int32_t added_to = kNone, after = kNone;
  int32_t parts = 1;  // of a row of the step, each normed by itself: rows / parts of the step's
  int32_t bias = kNone;
};
struct LinearArgs {
  StageWeight weight[2];
  int32_t bias[2];
  StageRows in;
  StageRows out;
  Epilogue epilogue;
  int32_t out_stride, rows, panels, long_items, long_panels;
};
struct RopeArgs {
  int32_t query, key, value, positions, tables, layer, unit, kv_heads;
  int32_t angles = 0, query_angles = 0;
  int32_t query_norm, key_norm;
  float epsilon;
};
struct AttentionArgs {
  int32_t query, out, list, positions, tables, partials, layer, unit, kv_heads, window;
  int32_t sinks = kNone;
};
struct CombineArgs {
  int32_t in, list, partials, rows, layer;
  StageRows out;
  int32_t sinks = kNone, gate = kNone;
};
struct StatisticsArgs {
  int32_t logits, out, vocabulary, chunks, list;
};
struct SampleArgs {
  int32_t logits, statistics, vocabulary, chunks, list, results;
};

struct AdapterArgs {
  int32_t layer, target, targets;
  int32_t in, depth;
  int32_t shrunk, max_rows, rank_max;
  int32_t tiles, slot_size;
  int32_t out[3], outputs[3], part_panels[3];
  int32_t panels, parts;
};
struct SwigluArgs {
  int32_t gate, up, up_stride, depth, rows;
  StageRows out;
};

struct RouteArgs {
  int32_t logits, experts, used, normed, bias, chosen, weights;
  float scale = 1.0F;
  int32_t sigmoid = 0, groups = 1, groups_used = 1, scales = kNone;
};
struct SortArgs {
  int32_t chosen, rows, experts, counts, places, active;
};
struct GatherArgs {
  StageRows in, out;
  int32_t depth, rows, used, places;
};
struct ExpertsArgs {
  StageWeight weight[2];
  StageRows in, out;
  Epilogue epilogue;
  int32_t out_stride, rows, outputs, panels, active;
  int32_t bias[2] = {kNone, kNone};
};
struct MergeArgs {
  int32_t experts, weights, places, used, depth, out, added_to, shared, shared_gate, in;
};

// Of a layer with a state, all its operations.
struct StateArgs {
  int32_t mixed, convolution, convolution_bias, place;
  int32_t entries;
  int32_t step, step_bias, decay;
  int32_t correction, skip;
  int32_t gate, norm;
  float epsilon;
  int32_t rows;
  StageRows out;
};

struct DivideArgs {
  int32_t in, size, first, depth, rows;
  StageRows out;
  int32_t rest = kNone, rest_stride = 0;
};
struct HeadsArgs {
  StageWeight weight;
  int32_t bias[2] = {kNone, kNone};
  StageRows in, out;
  int32_t row_stride, head_stride, rows, panels;
};

struct WidenArgs {
  int32_t in, heads, size, weight;
  float epsilon;
  int32_t out, together, shared, places;
};
struct NarrowArgs {
  int32_t in, size, shared, places, rows;
  StageRows out;
};

struct Stage {
  Operation operation;
  int32_t items;
  int32_t counter;
  int32_t wait_counter;
  int32_t wait_count;
  int32_t batch;
  union {
    int32_t words[26];
    EmbedArgs embed;
    NormArgs norm;
    LinearArgs linear;
    RopeArgs rope;
    AttentionArgs attention;
    CombineArgs combine;
    StatisticsArgs statistics;
    SampleArgs sample;  // of Change, too
    AdapterArgs adapter;
    SwigluArgs swiglu;
    RouteArgs route;
    SortArgs sort;
    GatherArgs gather;
    ExpertsArgs experts;
    MergeArgs merge;
    StateArgs state;
    DivideArgs divide;
    HeadsArgs heads;
    WidenArgs widen;
    NarrowArgs narrow;
  };
};
static_assert(sizeof(LinearArgs) <= sizeof(int32_t) * 26 && sizeof(AdapterArgs) <= sizeof(int32_t) * 26 &&
              sizeof(ExpertsArgs) <= sizeof(int32_t) * 26);
static_assert(sizeof(Stage) == 128);
inline constexpr int32_t kStageWords = 32;
inline constexpr int32_t kActiveWords = 3;  // of an expert that has rows, experts.cl

// Layout of the uploaded step, in words; stage.cl says what they mean.
inline constexpr int32_t kStepStageCount = 0, kStepStages = 1, kStepCopyStride = 2, kStepNumber = 3, kStepDone = 4,
                         kStepLastCounter = 5, kStepLastCount = 6, kStepTicket = 16, kStepCounters = 32;
inline constexpr int32_t kStepCounterStride = 16;

// Where an adapter's matrices lie in its slot (lora.cl).
struct AdapterPair {
  PanelType type_a = PanelType::F32;
  int32_t offset_a = 0;  // in units of kWeightAlignment bytes from the slot's begin
  PanelType type_b = PanelType::F32;
  int32_t offset_b = 0;
  int32_t rank = 0;
  float scale = 0.0F;
  int32_t unused[2] = {0, 0};
};
static_assert(sizeof(AdapterPair) == 32);

// Numbers that kernels and host agree on.
inline constexpr int32_t kAttentionPartition = 256;  // attention.cl PARTITION
inline constexpr int32_t kAttentionQueriesMax = 60;  // attention.cl QUERIES_MAX
inline constexpr int32_t kGroupQueries = 12;         // groups_attention.cl, a tile
inline constexpr int32_t kWorkGroup = 256;           // groups.cl WORK_GROUP
inline constexpr int32_t kTileRows = 64;             // groups.cl TILE_ROWS
inline constexpr int32_t kFewRows = 32;              // groups_linear.cl FEW_ROWS
inline constexpr int32_t kFewFloatRows = 8;          // groups_linear.cl FEW_FLOAT_ROWS
inline constexpr int32_t kAttentionItemWords = 8;
inline constexpr int32_t kAdapterTileWords = 3;  // lora.cl ADAPTER_TILE_WORDS
inline constexpr int32_t kAdapterPairs = 7;      // of a layer, lora.cl ADAPTER_PAIRS
inline constexpr int32_t kSwigluColumns = 512;   // lora.cl SWIGLU_COLUMNS
inline constexpr int32_t kSampleWords = 12;
inline constexpr int32_t kChangeWords = 13;   // of the head of a row's changes, sampling_item.cl
inline constexpr int32_t kOwnTokensMax = 64;  // sampling_item.cl OWN_TOKENS_MAX
inline constexpr int32_t kResultWords = 8;
inline constexpr int32_t kStateEntryWords = 5;    // states.cl STATE_ENTRY_WORDS
inline constexpr int32_t kStateColumns = 16;      // states.cl STATE_COLUMNS
inline constexpr int32_t kConvolveChannels = 32;  // states.cl CONVOLVE_CHANNELS

}  // namespace inflight
