// SPDX-License-Identifier: Apache-2.0
// `inflight run`: several prompts as one continuous batch; the first answer streams, the others follow.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/clock.h"
#include "base/error.h"
#include "cli/chat.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/format.h"
#include "cli/request_flags.h"
#include "cli/stderr_log.h"
#include "sim/text_file.h"

namespace inflight::cli {
namespace {

struct RunFlags {
  std::vector<std::string> prompts;
  std::vector<std::string> prompt_ids;  // "1,2,3" each
  std::string prompts_path;             // one prompt a line
  std::optional<std::string> suffix;
  std::string system;
  bool chat = false;
  bool as_json = false;
};

struct Answer {
  std::string prompt;  // as it is shown
  std::vector<float> logprobs;
  std::vector<Event::Top> top_logprobs;
  std::vector<float> prompt_logprobs;
  std::vector<Event::Top> prompt_top_logprobs;
  std::string text;
  std::vector<int32_t> token_ids;
  Event last;
  TimeNs first_token = 0;
  int32_t first_count = 0;  // tokens that were there when it was seen
};

std::vector<int32_t> parse_ids(const std::string& text) {
  std::vector<int32_t> ids;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string one = text.substr(at, comma - at);
    size_t used = 0;
    int32_t id = -1;
    try {
      id = std::stoi(one, &used);
    } catch (const std::exception&) {
      used = 0;
    }
    if (used == 0 || used != one.size() || id < 0) {
      fail(ErrorCode::InvalidArgument, "--prompt-ids: '{}' is no token id, allowed: numbers separated by commas", one);
    }
    ids.push_back(id);
    at = comma + 1;
  }
  return ids;
}

std::vector<std::string> read_lines(const std::string& path) {
  std::istringstream file(read_text_file(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) lines.push_back(line);
  }
  if (lines.empty()) fail(ErrorCode::InvalidArgument, "{}: no prompt in this file, one a line is expected", path);
  return lines;
}

// What to answer: the prompts given, else standard input, else (at a terminal) a story.
std::vector<RequestOptions> requests_of(const RunFlags& flags, const RequestOptions& common) {
  std::vector<std::string> prompts = flags.prompts;
  if (!flags.prompts_path.empty()) {
    const auto lines = read_lines(flags.prompts_path);
    prompts.insert(prompts.end(), lines.begin(), lines.end());
  }
  if (prompts.empty() && flags.prompt_ids.empty()) {
    if (::isatty(STDIN_FILENO) == 1) {
      prompts.emplace_back("Once upon a time");
    } else {
      prompts.emplace_back(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
    }
  }
  std::vector<RequestOptions> requests;
  for (const std::string& prompt : prompts) {
    if (prompt.empty() && !flags.suffix)
      fail(ErrorCode::InvalidArgument, "the prompt is empty, allowed: any text of one byte or more");
    requests.push_back(common);
    requests.back().prompt = prompt;
  }
  for (const std::string& ids : flags.prompt_ids) {
    requests.push_back(common);
    requests.back().prompt_ids = parse_ids(ids);
  }
  return requests;
}

// Waits for all streams at once; `show` receives the text of the first answer as it comes.
// answers: the choices of each stream one after the other.
template <typename Show>
void collect(std::vector<Stream>& streams, std::vector<Answer>& answers, const Clock& clock, Show&& show) {
  constexpr auto kTurn = std::chrono::milliseconds(20);
  const size_t choices = answers.size() / streams.size();
  size_t open = answers.size();
  while (open > 0) {
    bool waited = false;
    for (size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].ended()) continue;
      const auto event = streams[i].next(waited ? std::chrono::milliseconds(0) : kTurn);
      waited = true;
      if (!event) continue;
      Answer& answer = answers[i * choices + static_cast<size_t>(event->index)];
      answer.logprobs.insert(answer.logprobs.end(), event->logprobs.begin(), event->logprobs.end());
      answer.top_logprobs.insert(answer.top_logprobs.end(), event->top_logprobs.begin(), event->top_logprobs.end());
      answer.prompt_logprobs.insert(answer.prompt_logprobs.end(), event->prompt_logprobs.begin(),
                                    event->prompt_logprobs.end());
      answer.prompt_top_logprobs.insert(answer.prompt_top_logprobs.end(), event->prompt_top_logprobs.begin(),
                                        event->prompt_top_logprobs.end());
      if (answer.first_token == 0 && !event->token_ids.empty()) {
        answer.first_token = clock.now();
        answer.first_count = static_cast<int32_t>(event->token_ids.size());
      }
      answer.text += event->text;
      answer.token_ids.insert(answer.token_ids.end(), event->token_ids.begin(), event->token_ids.end());
      answer.last = *event;
      if (i == 0 && event->index == 0) show(event->text);
      if (event->finish_reason != INFLIGHT_FINISH_NONE) --open;
    }
  }
}

const char* finish_name(inflight_finish_reason_t reason) {
  constexpr const char* kNames[] = {"none", "stop", "length", "abort", "error"};
  return kNames[reason];
}

// Nothing: there was none to time.
struct Timings {
  double load_ms;
  std::optional<double> ttft_ms, prefill_tokens_per_second, decode_tokens_per_second;
};

// By the engine's clock where it tells; where a stop string ended an answer before, by when its text was seen.
Timings timings_of(const std::vector<Answer>& answers, double load_ms, TimeNs begin, TimeNs end) {
  const auto seconds = [begin](TimeNs time) { return static_cast<double>(time - begin) * 1e-9; };
  int64_t prompt_tokens = 0, later_tokens = 0;
  double first = seconds(end), last_first = 0.0, last = 0.0;
  for (const Answer& answer : answers) {
    if (answer.first_token == 0) continue;
    const bool told = answer.last.first_token_s > 0.0;
    const double answer_first = told ? answer.last.first_token_s : seconds(answer.first_token);
    prompt_tokens += answer.last.prompt_token_count - answer.last.cached_token_count;
    later_tokens += answer.last.output_token_count - (told ? 1 : answer.first_count);
    first = std::min(first, answer_first);
    last_first = std::max(last_first, answer_first);
    last = std::max(last, told ? answer.last.last_token_s : seconds(end));
  }
  Timings timings{.load_ms = load_ms, .ttft_ms = {}, .prefill_tokens_per_second = {}, .decode_tokens_per_second = {}};
  if (last_first > 0.0) {
    timings.ttft_ms = first * 1e3;
    timings.prefill_tokens_per_second = static_cast<double>(prompt_tokens) / last_first;
  }
  if (later_tokens > 0 && last > first)
    timings.decode_tokens_per_second = static_cast<double>(later_tokens) / (last - first);
  return timings;
}

nlohmann::json or_null(std::optional<double> value) { return value ? nlohmann::json(*value) : nlohmann::json(); }

nlohmann::ordered_json lists_of(const std::vector<Event::Top>& tops) {
  nlohmann::ordered_json lists = nlohmann::ordered_json::array();
  for (const Event::Top& top : tops) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto& [id, logprob] : top) list.push_back({{"token_id", id}, {"logprob", logprob}});
    lists.push_back(list);
  }
  return lists;
}

void print_answers(const std::vector<Answer>& answers, size_t choices, const Timings& timings,
                   const std::string& device) {
  nlohmann::ordered_json outputs = nlohmann::ordered_json::array();
  for (size_t i = 0; i < answers.size(); ++i) {
    const Answer& answer = answers[i];
    outputs.push_back({{"index", i / choices},
                       {"choice", i % choices},
                       {"text", answer.text},
                       {"token_ids", answer.token_ids},
                       {"prompt_tokens", answer.last.prompt_token_count},
                       {"cached_tokens", answer.last.cached_token_count},
                       {"finish_reason", finish_name(answer.last.finish_reason)}});
    if (!answer.prompt_logprobs.empty()) {
      outputs.back()["prompt_logprobs"] = answer.prompt_logprobs;
      outputs.back()["prompt_top_logprobs"] = lists_of(answer.prompt_top_logprobs);
    }
    if (answer.top_logprobs.empty()) continue;
    outputs.back()["logprobs"] = answer.logprobs;
    outputs.back()["top_logprobs"] = lists_of(answer.top_logprobs);
  }
  print_json({{"outputs", outputs},
              {"timings",
               {{"load_ms", timings.load_ms},
                {"ttft_ms", or_null(timings.ttft_ms)},
                {"prefill_tokens_per_second", or_null(timings.prefill_tokens_per_second)},
                {"decode_tokens_per_second", or_null(timings.decode_tokens_per_second)}}},
              {"device", device}});
}

void run(const RunFlags& flags, EngineFlags& engine_flags, RequestOptions& common) {
  check_engine_files(engine_flags, {}, {flags.prompts_path});
  const SteadyClock clock;
  const std::vector<std::string> adapters = lora_names(engine_flags);
  if (common.lora_name.empty() && adapters.size() == 1) common.lora_name = adapters.front();
  if (adapters.empty() && !common.lora_name.empty()) {
    fail(ErrorCode::InvalidArgument, "--lora-name is '{}', allowed: the NAME of a --lora NAME=FILE, found none",
         common.lora_name);
  }
  std::vector<RequestOptions> requests;
  if (!flags.chat) requests = requests_of(flags, common);  // what is wrong with them is said before loading
  const TimeNs load_begin = clock.now();
  Engine engine = open_engine(engine_flags);
  const double load_ms = static_cast<double>(clock.now() - load_begin) * 1e-6;
  if (flags.chat) return run_chat(engine, common, flags.system);

  const auto info = nlohmann::json::parse(engine.info_json());
  const std::string device = info.at("device").at("name");
  const auto choices = static_cast<size_t>(std::clamp(common.params.n, 1, 1 << 10));  // what is wrong is said at submit
  std::vector<Answer> answers(requests.size() * choices);
  std::vector<Stream> streams;
  for (size_t i = 0; i < answers.size(); ++i) {
    const RequestOptions& request = requests[i / choices];
    if (request.prompt_ids.empty()) answers[i].prompt = request.prompt;
  }
  for (RequestOptions& request : requests) {
    if (!flags.suffix) break;
    constexpr bool kParseSpecial = false;  // as the server does
    request.prompt_ids =
        engine.infill_tokenize(request.prompt, *flags.suffix, request.params.add_special_tokens != 0, kParseSpecial);
    request.prompt.clear();
  }
  const TimeNs begin = clock.now();
  for (const RequestOptions& request : requests) streams.push_back(engine.submit(request));
  const auto heading = [&](size_t i) {
    if (answers.size() > 1) print_now(fmt::format("{}[{}] ", i == 0 ? "" : "\n", i + 1));
    print_now(answers[i].prompt);
  };
  bool begun = flags.as_json;  // the first answer's text stands on standard output
  const auto show = [&](const std::string& text) {
    if (flags.as_json || text.empty()) return;
    if (!begun) heading(0);
    begun = true;
    print_now(text);
  };
  collect(streams, answers, clock, show);
  const TimeNs end = clock.now();
  for (const Answer& answer : answers) {
    if (answer.last.finish_reason != INFLIGHT_FINISH_ERROR) continue;
    fail(static_cast<ErrorCode>(answer.last.error_status), "{}", answer.last.error);
  }
  const Timings timings = timings_of(answers, load_ms, begin, end);
  write_profile(engine, engine_flags);
  if (flags.as_json) {
    print_answers(answers, choices, timings, device);
  } else {
    int64_t tokens = 0;
    if (!begun) heading(0);
    for (size_t i = 0; i < answers.size(); ++i) {
      if (i > 0) heading(i), print_now(answers[i].text);
      print_now(flags.suffix.value_or("") + "\n");
      tokens += answers[i].last.output_token_count;
    }
    for (size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].last.finish_reason != INFLIGHT_FINISH_ABORT) continue;
      print_to_stderr("\ninflight: answer {} was cut: {}\n", i + 1, answers[i].last.error);
    }
    print_to_stderr("\n{} on {}: {} tokens, batch of {}, {:.0f} tokens/s, {}loaded in {:.0f} ms\n",
                    info.at("model").at("name").get<std::string>(), device, tokens, answers.size(),
                    static_cast<double>(tokens) / std::max(static_cast<double>(end - begin) * 1e-9, 1e-9),
                    timings.ttft_ms ? fmt::format("first token after {:.0f} ms, ", *timings.ttft_ms) : "", load_ms);
  }
}

}  // namespace

void add_run_command(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("run", "Answer prompts; several run as one continuous batch");
  command->footer(
      "Examples:\n"
      "  inflight run                                             a story from the demo model\n"
      "  inflight run -p 'Once upon a time' -p 'One day, Ben'     two answers from one batch\n"
      "  echo 'Once upon a time' | inflight run --json            one JSON object\n"
      "  inflight run -m model.gguf --chat                        a conversation");
  const auto flags = std::make_shared<RunFlags>();
  command->add_option("-p,--prompt", flags->prompts, "Prompt; may be given several times (default: standard input)")
      ->allow_extra_args(false);
  command->add_option("--prompts", flags->prompts_path, "File with one prompt a line");
  command->add_option("--prompt-ids", flags->prompt_ids, "Prompt as token ids: 1,2,3")->allow_extra_args(false);
  command
      ->add_option(
          "--suffix", flags->suffix,
          "Text behind the answers, which are written to stand between the prompts and it (fill in the middle)")
      ->excludes("--prompt-ids");
  CLI::Option* const chat = command->add_flag("--chat", flags->chat, "Converse with the model's chat template");
  command->add_option("--system", flags->system, "System prompt of --chat")->needs(chat);
  command->add_flag("--json", flags->as_json, "One JSON object instead of text");
  for (const char* const other : {"--prompt", "--prompts", "--prompt-ids", "--suffix", "--json"}) chat->excludes(other);
  const auto engine_flags = add_engine_flags(*command);
  const auto request = add_request_flags(*command);
  chat->excludes("--choices");
  command->callback([flags, engine_flags, request] { run(*flags, *engine_flags, *request); });
}

}  // namespace inflight::cli
