// SPDX-License-Identifier: Apache-2.0
#include "cli/request_flags.h"

#include "base/error.h"
#include "base/limits.h"
#include "sim/text_file.h"

namespace inflight::cli {
namespace {

// "ID=VALUE"
std::pair<int32_t, float> parse_bias(const std::string& text) {
  const size_t equals = text.find('=');
  try {
    size_t id_end = 0, value_end = 0;
    const int32_t id = std::stoi(text, &id_end);
    const float value = std::stof(text.substr(equals + 1), &value_end);
    if (id_end == equals && equals + 1 + value_end == text.size()) return {id, value};
  } catch (const std::exception&) {  // below
  }
  fail(ErrorCode::InvalidArgument, "--logit-bias is '{}', allowed: TOKEN_ID=NUMBER", text);
}

// The text itself, or with '@' the content of a file.
std::string text_or_file(const std::string& given) {
  return given.starts_with('@') ? read_text_file(given.substr(1)) : given;
}

}  // namespace

std::shared_ptr<RequestOptions> add_request_flags(CLI::App& command) {
  auto request = std::make_shared<RequestOptions>();
  inflight_request_params_t& params = request->params;
  const auto add = [&command](const char* name, auto& value, const char* help) {
    return command.add_option(name, value, help)->capture_default_str()->group("Answer");
  };
  const auto add_texts = [&command](const char* name, auto& values, const char* help) {
    return command.add_option(name, values, help)->allow_extra_args(false)->group("Answer");
  };
  add("-n,--max-tokens", params.max_tokens, "Output tokens at most");
  add("--min-tokens", params.min_tokens, "No end before so many");
  add("--temperature", params.temperature, "0: always the most likely token");
  add("--top-k", params.top_k, "Draw from the k most likely tokens; 0: all");
  add("--top-p", params.top_p, "Draw from the smallest set that is this likely");
  add("--min-p", params.min_p, "Drop tokens less likely than this share of the best");
  add("--typical-p", params.typical_p, "Draw from the most typical tokens; 1: off");
  add("--seed", params.seed, "Equal seeds draw equal answers; 0: one is drawn");
  add("--choices", params.n, "Answers to each prompt")->check(CLI::Range(1, limits::kChoicesMax));
  add("--best-of", params.best_of, "Generate so many, give the --choices best; 0: as many as --choices")
      ->check(CLI::Range(0, limits::kChoicesMax));
  add("--repetition-penalty", params.repetition_penalty, "Of tokens in prompt or output; 1: off");
  add("--presence-penalty", params.presence_penalty, "Once for each token that was output");
  add("--frequency-penalty", params.frequency_penalty, "For each time that it was output");
  add("--dry-multiplier", params.dry_multiplier, "DRY: penalty of tokens that continue a repetition; 0: off");
  add("--dry-base", params.dry_base, "Its growth with the repetition's length");
  add("--dry-allowed-length", params.dry_allowed_length, "Repetitions up to this length are free");
  add("--dry-penalty-last-n", params.dry_penalty_last_n, "Tokens looked back on; -1: all");
  add("--prompt-logprobs", params.prompt_logprobs, "The same of the prompt's tokens (--json); -1: none");
  add("--lora-name", request->lora_name,
      "The adapter it runs with, of those given with --lora (default: the only one)");
  add("--prediction", request->prediction,
      "A text that the answer is likely to repeat, for --speculative-config to guess from");
  add("--priority", params.priority, "Lower is sooner, with a policy that looks at it");
  add("--tenant", params.tenant, "On whose account, for policies that share the engine among tenants");
  add("--logprobs", params.logprobs, "Report so many most likely tokens of each position (--json); -1: none");
  add_texts("--stop", request->stop, "End before this text; may be given several times");
  command
      .add_flag("--include-stop-str-in-output", params.include_stop_str_in_output,
                "Give the --stop text that ended it too")
      ->group("Answer");
  command
      .add_option_function<std::vector<int32_t>>(
          "--stop-token-id",
          [request = request.get()](const std::vector<int32_t>& ids) { request->stop_token_ids = ids; },
          "End at this token; may be given several times")
      ->allow_extra_args(false)
      ->group("Answer");
  add_texts("--dry-sequence-breaker", request->dry_sequence_breakers,
            "Tokens with such a text end repetitions; may be given several times (default: newline : \" *)");
  add_texts("--bad-word", request->bad_words, "Never write this; may be given several times");
  command
      .add_option_function<std::vector<std::string>>(
          "--logit-bias",
          [request = request.get()](const std::vector<std::string>& biases) {
            for (const std::string& bias : biases) request->logit_bias.push_back(parse_bias(bias));
          },
          "TOKEN_ID=NUMBER is added to the logit; may be given several times")
      ->allow_extra_args(false)
      ->group("Answer");
  const auto add_source = [&](const char* name, std::string& value, const char* help) {
    command
        .add_option_function<std::string>(
            name, [&value](const std::string& given) { value = text_or_file(given); }, help)
        ->group("Answer");
  };
  command.add_option("--regex", request->structured_regex, "The whole answer matches this regular expression")
      ->group("Answer");
  add_source("--grammar", request->structured_grammar, "The answer follows this GBNF grammar: text, or @FILE");
  add_source("--json-schema", request->structured_json, "The answer is JSON of this schema: text, or @FILE");
  add_texts("--choice", request->structured_choice, "The answer is one of these texts; may be given several times");
  add_source("--tools", request->structured_tools,
             "Functions that the answer may call, as structured_tools of inflight.h: JSON, or @FILE");
  command
      .add_flag("--show-special-tokens", params.show_special_tokens,
                "Give the text of control tokens of the answer too")
      ->group("Answer");
  command.add_flag("--json-object", params.structured_json_object, "The answer is a JSON object")->group("Answer");
  constexpr const char* kWholes[] = {"--regex", "--grammar", "--json-schema", "--choice", "--json-object"};
  for (const char* const one : kWholes) {
    for (const char* const other : kWholes) {
      if (one != other) command.get_option(one)->excludes(command.get_option(other));
    }
  }
  command.add_flag("--ignore-eos", params.ignore_eos, "Go on through the model's end tokens")->group("Answer");
  return request;
}

}  // namespace inflight::cli
