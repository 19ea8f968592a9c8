// SPDX-License-Identifier: Apache-2.0
// Every hard limit of the library, in one place. A size read from a file or a client is checked against these before it
// is used; arrays are sized from them at engine creation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace inflight::limits {

// Model files.
inline constexpr uint64_t kGgufKeyCountMax = 1U << 20;
inline constexpr uint64_t kGgufTensorCountMax = 1U << 20;
inline constexpr uint64_t kGgufNameBytesMax = 65535;  // of a key or a tensor's name
inline constexpr uint32_t kGgufAlignmentMax = 1U << 16;
inline constexpr int64_t kGgufPartsMax = 4096;                       // files of one model
inline constexpr uint64_t kSafetensorsHeaderBytesMax = 100'000'000;  // as the format says
inline constexpr size_t kCheckpointJsonBytesMax = 256U << 20;        // of config.json, tokenizer.json, ...
inline constexpr uint64_t kGgufStringBytesMax = 1ULL << 30;
inline constexpr uint64_t kGgufArrayCountMax = 1ULL << 28;
inline constexpr int kGgufArrayDepthMax = 4;
inline constexpr int32_t kVocabularyMax = 1 << 22;
inline constexpr uint32_t kLabelsMax = 1 << 16;  // of a checkpoint's classifier
inline constexpr int32_t kLayerCountMax = 1024;
inline constexpr int32_t kHiddenSizeMax = 1 << 17;
inline constexpr int32_t kHeadSizeMax = 1024;
inline constexpr int32_t kExpertsMax = 1024;
inline constexpr int32_t kExpertsUsedMax = 64;
inline constexpr int32_t kExpertGroupsMax = 64;
inline constexpr int32_t kExpertSizeUnit = 16;     // hidden size and experts' feed-forward size are multiples of it
inline constexpr int32_t kLocalHeadSizeUnit = 32;  // of heads where local layers have their own size
inline constexpr int32_t kStateSizeUnit = 32;   // sizes of keys of states, and what they norm together, are multiples
inline constexpr int32_t kStateValueUnit = 16;  // sizes of a head's values, of this
inline constexpr int32_t kStateSizeMax = 512;
inline constexpr int32_t kStateWindowMax = 8;
inline constexpr int32_t kContextTokensMax = 1 << 24;

// Scheduling.
inline constexpr int32_t kBlockTokensMin = 8;
inline constexpr int32_t kBlockTokensMax = 128;
inline constexpr int32_t kSequencesMax = 1 << 16;      // running at once
inline constexpr int32_t kBatchedTokensMax = 1 << 20;  // in one step
inline constexpr int32_t kBlocksMax = 1 << 28;
inline constexpr int32_t kRequestsMax = 1 << 22;  // waiting and running
inline constexpr int32_t kTenantsMax = 1 << 12;
inline constexpr int32_t kSkipAheadMax = 64;            // waiting requests looked past in one step
inline constexpr int32_t kNewTokensEstimateMax = 4096;  // output tokens that admission expects of one sequence at most
inline constexpr size_t kStopTokensMax = 64;            // per request

// Adapters.
inline constexpr int32_t kLorasMax = 1024;  // in one step
inline constexpr int32_t kLoraRankMax = 512;
inline constexpr size_t kLoraNameBytesMax = 256;

inline constexpr int32_t kDraftTokensMax = 64;  // guessed ahead of a sequence's newest token

// Generation options, per request.
inline constexpr int32_t kChoicesMax = 128;  // n and best_of
inline constexpr int32_t kLogprobsMax = 20;  // OpenAI's
inline constexpr size_t kLogitBiasMax = 4096;
inline constexpr size_t kBadWordsMax = 1024;
inline constexpr size_t kBadWordTokensMax = 64;
inline constexpr size_t kDryBreakersMax = 1 << 16;
inline constexpr size_t kStopStringsMax = 16;
inline constexpr size_t kStopStringBytesMax = 1024;

inline constexpr int64_t kStarvationNs =
    30'000'000'000;  // a policy may keep the first in line waiting, with room for it

inline constexpr int32_t kPluginStuckMs = 2000;     // an op of a guarded policy that takes longer is cut short
inline constexpr int64_t kPluginOpNs = 20'000'000;  // one that takes longer costs a strike

// Text.
inline constexpr size_t kPromptBytesMax = 256U << 20;
inline constexpr size_t kTemplateBytesMax = 1U << 20;
inline constexpr int kTemplateDepthMax = 64;                  // nested blocks and calls
inline constexpr int kTemplateOperationsMax = 500;            // in one statement
inline constexpr int kTemplateRecursionMax = 1000;            // expressions and statements being evaluated
inline constexpr int kTemplateValueDepthMax = 200;            // lists and mappings within one another
inline constexpr size_t kTemplateValueBytesMax = 256U << 20;  // all values that one rendering makes
inline constexpr int64_t kTemplateStepsMax = 10'000'000;      // evaluated nodes of one rendering
inline constexpr size_t kTemplateWorkMax = size_t{1} << 30;   // bytes of text and values that one rendering looks at
inline constexpr uint32_t kRegexMatchLimit = 10'000'000;

// Grammars.
inline constexpr size_t kGrammarBytesMax = 1U << 20;
inline constexpr int kGrammarDepthMax = 64;  // nested schemas and groups
inline constexpr int64_t kGrammarRepeatMax = 10'000;
inline constexpr size_t kGrammarInstructionsMax = 400'000;
inline constexpr size_t kGrammarDfaStatesMax = 10'000;    // of an automaton for what must hold at once
inline constexpr size_t kGrammarStatesMax = 50'000;       // of one grammar's automaton; beyond, it begins anew
inline constexpr size_t kGrammarMaskWordsMax = 16 << 20;  // of one grammar's kept masks
inline constexpr size_t kGrammarsKept = 64;               // compiled and unused
inline constexpr size_t kGrammarPositionsMax = 10'000;    // ways to read one text at once
inline constexpr size_t kGrammarFramesMax = 1'000'000;    // calls of rules within rules, of one request's text
inline constexpr int64_t kGrammarWorkMax = 5'000'000;     // positions looked at for one mask, or one token
inline constexpr size_t kForcedBytesMax = 4096;           // that forced_text() gives at once

// Simulation.
inline constexpr size_t kTraceBytesMax = size_t{4} << 30;
inline constexpr int64_t kSimRequestsMax = 50'000'000;

// Device.
inline constexpr size_t kCacheEntryBytesMax = size_t{1} << 30;  // a larger file in the cache folder is damaged

}  // namespace inflight::limits
