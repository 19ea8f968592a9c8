// SPDX-License-Identifier: Apache-2.0
#include "cli/engine_flags.h"

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "cli/config_file.h"
#include "cli/demo_model.h"
#include "cli/progress_bar.h"
#include "cli/stderr_log.h"
#include "sim/sim_spec.h"
#include "sim/text_file.h"

namespace inflight::cli {
namespace {

constexpr const char* kEngine = "Engine";
constexpr const char* kScheduling = "Scheduling";
constexpr const char* kService = "Service";
constexpr const char* kSpeculativeHelp =
    R"(JSON: {"method": "ngram", "num_speculative_tokens": 4}: guess tokens from the request's own text and verify several )"
    R"(at a time; the answers stay the same; {"model": FILE, ...}: a small GGUF model guesses (default: none))";

// By vLLM's names and GGUF's.
const std::map<std::string, inflight_kv_type_t> kKvTypes = {{"auto", INFLIGHT_KV_AUTO},
                                                            {"f16", INFLIGHT_KV_F16},
                                                            {"f32", INFLIGHT_KV_F32},
                                                            {"q8_0", INFLIGHT_KV_Q8_0},
                                                            {"i16", INFLIGHT_KV_I16}};

// NAME alone means on.
void add_switch(CLI::App& command, const char* name, std::string& value, const char* help,
                const char* group = kScheduling) {
  command.add_option(name, value, help)
      ->expected(0, 1)
      ->transform([](std::string given) { return given.empty() ? std::string("on") : given; })
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str()
      ->group(group);
}

void add_lora_flags(CLI::App& command, EngineOptions& options) {
  command
      .add_option("--lora,--lora-modules", options.lora_modules,
                  "NAME=FILE: a LoRA adapter (GGUF) that requests may name; may be given several times")
      ->allow_extra_args(false)
      ->group(kEngine);
  command.add_option("--max-loras", options.params.max_loras, "Adapters in one batch (default: as many as --lora)")
      ->group(kEngine);
  command
      .add_option("--max-lora-rank", options.params.max_lora_rank,
                  "Largest rank of an adapter, up to 512 (default: 16, or what --lora needs)")
      ->group(kEngine);
}

void add_service_flags(CLI::App& command, EngineFlags& flags) {
  inflight_engine_params_t& params = flags.options.params;
  const auto add = [&command](const char* name, auto& value, const char* help) {
    return command.add_option(name, value, help)->group(kService);
  };
  add("--max-requests", params.max_requests, "Requests waiting and running at most (default: 65536)");
  add("--max-num-queued-reqs,--max-queued-requests", params.max_num_queued_reqs,
      "Requests beyond those that can run at most, one more is rejected (default: no limit)");
  add("--max-num-queued-tokens", params.max_num_queued_tokens,
      "Prompt tokens waiting at most, one more is rejected (default: no limit)");
  add("--max-predicted-wait-ms", params.max_predicted_wait_ms,
      "A request that would wait longer is rejected (default: no limit)");
  add("--request-timeout-ms", params.request_timeout_ms, "A request is aborted so long after it came (default: never)");
  add("--watchdog-timeout", params.watchdog_timeout_s,
      "Seconds of one step after which the engine counts as hung; 0: never")
      ->capture_default_str();
  add("--max-tokens-limit", params.max_tokens_limit, "Output tokens of any request at most (default: no limit)");
  add_switch(command, "--clip-max-tokens", flags.clip_max_tokens,
             "A request for more than --max-tokens-limit gets the limit; off: is refused", kService);
  add("--log-interval-steps", params.log_interval_steps, "A line of figures to the log every so many steps");
  add("--record", flags.options.record_path, "Every decision to this file, for: inflight replay, inflight explain");
}

}  // namespace

std::shared_ptr<EngineFlags> add_engine_flags(CLI::App& command) {
  auto flags = std::make_shared<EngineFlags>();
  EngineOptions& options = flags->options;
  inflight_engine_params_t& params = options.params;
  const auto add = [&command](const char* name, auto& value, const char* help, const char* group) {
    return command.add_option(name, value, help)->group(group);
  };
  add("-m,--model", options.model, "GGUF file, or a folder of safetensors (default: the demo model)", kEngine)
      ->check(not_empty());
  add("--device", options.device,
      "Index, cpu, gpu or part of a name, see: inflight devices (default: best GPU, else CPU)", kEngine)
      ->check(not_empty())
      ->envname("INFLIGHT_DEVICE");
  add("--max-model-len", params.max_model_len, "Tokens of a sequence, prompt and output (default: the model's)",
      kEngine);
  add("--block-size", params.block_size, "Tokens of a KV block: 8, 16, 32, 64, 128 (default: 16)", kEngine);
  add("--kv-blocks", params.kv_blocks, "KV blocks (default: as many as are useful and fit)", kEngine);
  add("--host-kv-blocks", params.host_kv_blocks, "KV blocks in host memory for --preempt swap|auto (default: 0)",
      kEngine);
  add("--kv-offloading-size", params.kv_offloading_size,
      "GiB of host memory for stored KV that the device has no room for (default: 0)", kEngine);
  add("--kv-cache-dtype", flags->kv_cache_dtype,
      "Numbers of the KV cache; auto: i16 where it is fast (x86 CPUs through PoCL), else f16; q8_0 takes half of it",
      kEngine)
      ->check(CLI::IsMember(kKvTypes))
      ->capture_default_str();
  add("--device-memory-fraction", params.device_memory_fraction, "Share of the device's memory to use", kEngine)
      ->capture_default_str();
  command
      .add_flag("--cache-weights", params.cache_weights,
                "Keep the packed weights, as large as the model, in the cache folder, which makes later starts faster")
      ->group(kEngine);
  add_lora_flags(command, options);
  add("--profile", flags->profile_path, "Time every kernel and write a Chrome trace to this file", kEngine);

  add("--max-num-seqs", params.max_num_seqs,
      "Sequences running at once (default: 64; fewer where each has a large state)", kScheduling);
  add("--max-num-batched-tokens", params.max_num_batched_tokens,
      "Tokens computed in a step (default: CPU 256, without VNNI 128; else 512; at least --max-num-seqs)", kScheduling);
  add("--max-prefill-tokens,--chunked-prefill-size,--chunk", params.max_prefill_tokens,
      "Of these, prompt tokens (default: all)", kScheduling);
  add("--long-prefill-token-threshold", params.long_prefill_token_threshold, "Of these, of one prompt (default: all)",
      kScheduling);
  add("--max-num-partial-prefills", params.max_num_partial_prefills,
      "Prompts in progress at the end of a step (default: as many as fit)", kScheduling);
  add("--scheduling-profile", options.scheduling_profile,
      "rag, batch, tenant or sla: policies and limits for that use; other flags come on top", kScheduling);
  add("--policy,--schedule-policy", options.schedule_policy,
      "Order of the requests, see: inflight plugin list (default: fcfs)", kScheduling)
      ->check(not_empty());
  add("--evict,--radix-eviction-policy", options.radix_eviction_policy,
      "Which stored KV goes first, see: inflight plugin list (default: lru)", kScheduling)
      ->check(not_empty());
  add("--batching", options.batching, "continuous, prefill_first, dynamic or static (default: continuous)",
      kScheduling);
  add("--max-batch-delay-ms", params.max_batch_delay_ms, "dynamic: longest wait for a full batch", kScheduling)
      ->capture_default_str();
  command.add_flag("--enable-mixed-chunk", params.enable_mixed_chunk, "prefill_first: decodes ride along with prompts")
      ->group(kScheduling);
  add("--preempt", options.preempt, "recompute, swap or auto (default: recompute)", kScheduling);
  add("--preempt-victim", flags->preempt_victim,
      "last_admitted, lowest_priority, fewest_output, most_freeable or cheapest (default: last_admitted)", kScheduling);
  add("--kv-headroom", params.kv_headroom, "Share of the blocks that admission leaves free (default: 0)", kScheduling);
  add("--schedule-conservativeness", params.schedule_conservativeness,
      "Room kept for output to come: 0 none (vLLM) .. 1 (SGLang)", kScheduling)
      ->capture_default_str();
  add("--priority-preemption-threshold", params.priority_preemption_threshold,
      "A request replaces running ones whose priority is worse by more than this (default: never)", kScheduling);
  add("--speculative-config", options.speculative_config, kSpeculativeHelp, kScheduling);
  add_switch(command, "--overlap", flags->overlap, "Plan a step while the one before runs");
  add_switch(command, "--prefix-caching,--enable-prefix-caching", flags->prefix_caching,
             "Keep and share the KV of finished prompts");
  add("--linear-backend", options.linear_backend,
      "auto, panel (own kernels) or clblast, for weights of F32, F16 and BF16 (default: auto, what was measured "
      "faster)",
      kEngine);
  add_switch(command, "--deterministic", flags->deterministic, "The same tokens whatever else runs; off gains nothing");
  add("--classifier-from-token", options.classifier_from_token,
      "A reranker without a classifier in its file, or any chat model, for /v1/rerank: \"no,yes\", the tokens it "
      "answers with (default: the file's classifier)",
      kEngine);
  add("--chat-template", flags->chat_template, "A file with a Jinja template, in the place of the model's", kEngine);

  add_service_flags(command, *flags);
  add_config_options(command);
  return flags;
}

std::string draft_model_of(const EngineFlags& flags) {
  const auto json = nlohmann::json::parse(flags.options.speculative_config, nullptr, false);
  const auto model = json.find("model");
  return model != json.end() && model->is_string() ? model->get<std::string>() : "";
}

void check_engine_files(const EngineFlags& flags, std::vector<OutputFile> outputs, std::vector<std::string> inputs) {
  const EngineOptions& options = flags.options;
  outputs.push_back({"--record", options.record_path});
  outputs.push_back({"--profile", flags.profile_path});
  inputs.push_back(options.model.empty() ? demo_model_path() : options.model);
  inputs.push_back(draft_model_of(flags));
  inputs.push_back(flags.chat_template);
  for (const std::string& module : options.lora_modules) inputs.push_back(module.substr(module.find('=') + 1));
  for (const auto& [key, policy] : {std::pair{"schedule_policy", options.schedule_policy},
                                    {"radix_eviction_policy", options.radix_eviction_policy}}) {
    for (const std::string& file : files_named(key, policy)) inputs.push_back(file);
  }
  check_outputs(outputs, inputs);
}

Engine open_engine(EngineFlags& flags) {
  EngineOptions options = flags.options;
  if (options.model.empty()) options.model = demo_model_path();
  check_engine_files(flags);
  if (!flags.chat_template.empty()) options.chat_template = read_text_file(flags.chat_template);
  options.params.overlap = flags.overlap == "on" ? 1 : 0;
  options.params.enable_prefix_caching = flags.prefix_caching == "on" ? 1 : 0;
  options.params.deterministic = flags.deterministic == "on" ? 1 : 0;
  options.params.kv_cache_dtype = kKvTypes.at(flags.kv_cache_dtype);
  options.params.profile = flags.profile_path.empty() ? 0 : 1;
  options.params.clip_max_tokens = flags.clip_max_tokens == "on" ? 1 : 0;
  if (!flags.preempt_victim.empty()) options.params.preempt_victim = flags.preempt_victim.c_str();
  if (options.params.log_interval_steps > 0) log_to_stderr(INFLIGHT_LOG_INFO);  // its lines are of this level

  const SteadyClock clock;
  ProgressBar progress("loading", clock);
  options.params.progress = [](void* context, double fraction, const char* what) -> int32_t {
    auto& shown = *static_cast<ProgressBar*>(context);
    if (fraction == 0.0) {
      shown.announce(what);
    } else {
      shown.update_share(fraction, what);
    }
    return 0;
  };
  options.params.progress_context = &progress;
  return Engine(options);
}

std::vector<std::string> lora_names(const EngineFlags& flags) {
  std::vector<std::string> names;
  for (const std::string& module : flags.options.lora_modules) names.push_back(module.substr(0, module.find('=')));
  return names;
}

void write_profile(Engine& engine, const EngineFlags& flags) {
  if (flags.profile_path.empty()) return;
  write_text_file(flags.profile_path, engine.trace_json());
}

}  // namespace inflight::cli
