// SPDX-License-Identifier: Apache-2.0
// A model file on a device, ready to serve: puts device, model, executor, text and engine together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "core/kv_layout.h"
#include "device/device.h"
#include "engine/classifier.h"
#include "engine/engine.h"
#include "engine/grammar_filter.h"
#include "exec/adapter_store.h"
#include "ops/clblast_choice.h"
#include "text/chat_template.h"
#include "text/grammar.h"
#include "text/grammar_tools.h"
#include "text/reasoning_format.h"
#include "text/tokenizer.h"
#include "text/tool_call_format.h"

namespace inflight {

class ClExecutor;
struct PlannedModel;

struct RuntimeOptions {
  std::string model;   // path of a GGUF file
  std::string device;  // index, cpu, gpu or part of a name; empty: $INFLIGHT_DEVICE, else the best GPU, else the CPU
  // max_model_len 0: the model's context length, or what the KV storage holds if that is less.
  // max_num_batched_tokens 0: 256 on a CPU with VNNI, 128 on others, else 512 (decision 0043); at least max_num_seqs.
  SchedulerConfig scheduler;
  bool fewer_seqs = false;              // max_num_seqs may be lowered to what states of sequences leave room for
  int32_t block_size = 16;              // tokens a KV block
  int32_t kv_blocks = 0;                // 0: as many as are useful and fit
  std::optional<KvType> kv_type;        // none: default_kv_type()
  double device_memory_fraction = 0.9;  // (0, 1]
  double kv_offloading_gib = 0.0;       // host memory for stored KV evicted from the device, 0..65536
  bool populate_kv = false;             // the memory of the first kPopulatedBytes of KV is found at creation
  bool cache_weights = false;           // packed weights are kept in cache_folder() and mapped from there
  std::string schedule_policy = "fcfs";
  std::string eviction_policy = "lru";
  bool prefix_caching = true;
  bool overlap = true;
  bool host_driven = false;
  bool profile = false;
  LinearBackend linear_backend = LinearBackend::Auto;
  std::string draft_model;            // path of a GGUF file, with scheduler.draft_model; "": none
  std::string chat_template;          // in the place of the model's; "": that
  std::string classifier_from_token;  // Classifier::of_tokens(), in the place of the file's; "": that
  std::string served_model_name;      // label of the metrics; "": the model's own
  ServiceOptions service;
  // LoRA adapters there from the beginning.
  struct LoraModule {
    std::string name;
    std::string path;
  };
  std::vector<LoraModule> lora_modules;
  int32_t max_loras = 0;  // adapters in one batch, up to limits::kLorasMax; 0: as many as lora_modules; none: no LoRA
  int32_t max_lora_rank = 0;  // up to limits::kLoraRankMax; 0: 16, or what lora_modules need
  // Called while loading; true ends it with Rejected. `fraction` in [0, 1], 0 before what takes seconds by itself.
  std::function<bool(double fraction, const char* what)> progress;
};

// THREAD: any, but for Engine::step().
class Runtime {
 public:
  // ERRORS: any; nothing stays behind.
  explicit Runtime(RuntimeOptions options);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime();

  [[nodiscard]] Engine& engine() { return *engine_; }
  [[nodiscard]] const Engine& engine() const { return *engine_; }

  // The model's, without the path: for messages that clients see.
  [[nodiscard]] std::string file_name() const;
  // Null: the model file has no vocabulary.
  [[nodiscard]] const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  // ERRORS: Unsupported when there is none.
  [[nodiscard]] const Tokenizer& require_tokenizer() const;
  // What the model's file states of embeddings.  ERRORS: Unsupported for another kind than mean and last.
  [[nodiscard]] Pooling model_pooling() const;
  // ERRORS: Unsupported when there is none.
  [[nodiscard]] const Classifier& require_classifier() const;
  // What a reranker judges: how relevant the document is for the query. By the file's template, else by the chat
  // template with the words that Qwen3-Reranker was trained with. Control tokens in the texts are plain text.
  // ERRORS: Unsupported without a classifier, a vocabulary or a template with both; as Tokenizer::encode().
  [[nodiscard]] std::vector<TokenId> rerank_prompt(std::string_view query, std::string_view document);
  // ERRORS: Unsupported without a template, InvalidArgument for a request the template refuses.
  [[nodiscard]] std::string render_chat(std::string_view request_json) const;

  // Where an answer to this prompt begins whose reasoning is apart: Text at models that mark none.
  // prompt_ids: in the prompt's place, unless there are none.
  [[nodiscard]] AnswerBegin answer_begin(std::string_view prompt, std::span<const TokenId> prompt_ids) const;

  // What lets only texts of a grammar come. Nothing is parsed before the source runs.  LIFETIME: as the runtime.
  // begin (of all three): unless it is Text, the filter holds behind the reasoning.
  // ERRORS: Unsupported without a vocabulary.
  [[nodiscard]] FilterSource grammar_filter(GrammarKind kind, std::string text, AnswerBegin begin = AnswerBegin::Text);

  // What lets calls of functions come in the model's own form, as structured_tools of inflight.h asks.
  // ERRORS: InvalidArgument naming what is wrong with the request; Unsupported without a vocabulary.
  struct ToolFilter {
    FilterSource source;
    bool sleeps = false;  // the filter lets everything come until it wakes
  };
  [[nodiscard]] ToolFilter tool_filter(std::string_view request_json, AnswerBegin begin);
  // The same beside another grammar: the answer is calls, or follows that one.   ERRORS: as these two;
  // InvalidArgument: the request asks for a call.
  [[nodiscard]] FilterSource tools_or_grammar_filter(std::string_view request_json, GrammarKind kind, std::string text,
                                                     AnswerBegin begin);
  // Control tokens that calls, and reasoning, are marked with.
  [[nodiscard]] const std::vector<TokenId>& tool_tokens() const { return tool_tokens_; }
  [[nodiscard]] const std::vector<TokenId>& reasoning_tokens() const { return reasoning_tokens_; }

  // Adapters may be loaded and unloaded while requests run; nobody waits. Requests that use an unloaded one go on with
  // it.   ERRORS: as AdapterStore's; Unsupported: the engine was made without adapters.
  void load_lora_adapter(const std::string& name, const std::string& path);
  void unload_lora_adapter(const std::string& name);
  [[nodiscard]] AdapterLease lease_lora_adapter(const std::string& name) const;

  // What runs here, as JSON: device, model, limits, memory, adapters.
  [[nodiscard]] std::string info_json() const;
  // Kernel launches since creation as a Chrome trace; no events without `profile`.
  [[nodiscard]] std::string trace_json();
  [[nodiscard]] size_t device_bytes() const;

 private:
  // ERRORS: InvalidArgument for the options' template when it cannot be parsed.
  void read_chat_template(const std::string& from_file);
  void read_classifier(const LoadedModel& model);
  [[nodiscard]] std::unique_ptr<GrammarFilter> make_filter(GrammarKind kind, const std::string& text,
                                                           const std::stop_token& stop);
  // Of an answer, or a part of one.
  struct Grammar {
    GrammarKind kind;
    std::string text;
    std::string_view harmony_header;  // Harmony: what stands before it
  };
  // An answer that follows one of the grammars, perhaps behind reasoning.   REQUIRES: begin is not Text.
  [[nodiscard]] std::unique_ptr<TokenFilter> behind_reasoning(std::vector<Grammar> grammars, AnswerBegin begin,
                                                              const std::stop_token& stop);
  [[nodiscard]] Grammar call_grammar(const ToolRequest& request, AnswerBegin begin) const;
  [[nodiscard]] bool is_harmony() const { return reasoning_.kind == ReasoningFormat::Kind::Harmony; }
  void make_adapter_store();
  // These three: of the target, then the draft model if there is one.
  // Settles what the options leave open, as the models and the device allow: sizes and limits.
  void size_executors(std::span<PlannedModel> models);
  [[nodiscard]] std::string describe(std::span<const PlannedModel> models) const;
  void start_engine(std::span<const PlannedModel> models);
  void report_compilation();
  [[nodiscard]] AdapterStore& require_adapters() const;

  RuntimeOptions options_;
  bool stop_loading_ = false;
  Device device_;
  ModelSpec spec_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<ChatTemplate> chat_template_;
  std::string chat_template_text_;   // what it was made from
  std::string chat_template_error_;  // why there is none though the file has one
  std::optional<Classifier> classifier_;
  std::string rerank_template_;  // of the file; once rerank_template_made_ what is used
  std::once_flag rerank_template_made_;
  ToolCallFormat tool_format_;
  ReasoningFormat reasoning_;
  std::vector<TokenId> tool_tokens_, reasoning_tokens_;
  std::once_flag grammars_made_;
  std::unique_ptr<GrammarStore> grammars_;  // with the first grammar
  std::unique_ptr<AdapterStore> adapters_;  // null: without adapters
  std::string info_;                        // but for the adapters
  std::mutex profile_mutex_;
  std::vector<ProfileRecord> profile_;  // what was taken from the device so far
  std::unique_ptr<Engine> engine_;      // last: its thread uses the device
};

}  // namespace inflight
