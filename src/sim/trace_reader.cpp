// SPDX-License-Identifier: Apache-2.0
#include "sim/trace_reader.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/error.h"
#include "base/fnv1a.h"
#include "base/limits.h"
#include "base/math.h"
#include "sched/trace_format.h"
#include "sim/text_file.h"
#include "sim/trace_lines.h"

namespace inflight {
namespace {

constexpr int32_t kMooncakeBlockTokens = 512;

// Streams of requests that share nothing; above all ids that traces name.
constexpr uint64_t kOwnStreams = uint64_t{1} << 62;

void add_unshared(Workload& workload, SimRequest request, int32_t prompt_tokens) {
  request.output_stream = kOwnStreams + workload.requests.size();
  const ContentSegment prompt[] = {{request.output_stream, 0, prompt_tokens}};
  workload.add(request, prompt);
}

// Index of the column that has one of the names.
size_t column(const TraceLines& lines, const std::vector<std::string_view>& header,
              std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const auto found = std::ranges::find(header, name);
    if (found == header.end()) continue;
    if (std::ranges::count(header, name) > 1) lines.bad_line(fmt::format("the header has two columns '{}'", name));
    return static_cast<size_t>(found - header.begin());
  }
  lines.bad_line(fmt::format("the header has no column '{}'", *names.begin()));
}

// CSV with a time and two token counts. A request without tokens (a failed one) is left out, and counted.
Workload parse_csv(std::string_view text, const std::string& name, std::initializer_list<std::string_view> time_names,
                   std::initializer_list<std::string_view> prompt_names,
                   std::initializer_list<std::string_view> output_names) {
  TraceLines lines(text, name);
  if (!lines.next()) fail(ErrorCode::CorruptFile, "{}: is empty", name);
  const auto header = split_csv(lines.line());
  const size_t time = column(lines, header, time_names), prompt = column(lines, header, prompt_names),
               output = column(lines, header, output_names);
  Workload workload;
  TraceTimes times;
  while (lines.next()) {
    const auto fields = split_csv(lines.line());
    if (fields.size() < header.size()) {
      lines.bad_line(fmt::format("has {} fields, allowed: {} as in the header", fields.size(), header.size()));
    }
    SimRequest request;
    request.arrival = times.read(lines, header[time], fields[time]);
    request.output_tokens = lines.tokens(header[output], fields[output], 0);
    const int32_t prompt_tokens = lines.tokens(header[prompt], fields[prompt], 0);
    if (request.output_tokens > 0 && prompt_tokens > 0) {
      add_unshared(workload, request, prompt_tokens);
    } else {
      ++workload.left_out_request_count;
    }
  }
  return workload;
}

nlohmann::json parse_json_line(const TraceLines& lines) {
  try {
    nlohmann::json json(parse_json(lines.line(), "its JSON"));  // members in the order of their names
    if (json.is_object()) return json;
  } catch (const Error& error) {
    lines.bad_line(error.what());
  }
  lines.bad_line("is no JSON object");
}

double number_of(const TraceLines& lines, const nlohmann::json& json, const char* field) {
  const auto found = json.find(field);
  if (found == json.end()) lines.bad_line(fmt::format("field {} is missing", field));
  if (!found->is_number()) lines.bad_field(field, found->dump(), "a number");
  return found->get<double>();
}

// A request of an OpenAI log: where its parts are found.
struct LogEntry {
  const nlohmann::json& line;
  const nlohmann::json& request;  // has messages, prompt or input
  const nlohmann::json* usage = nullptr;

  static const nlohmann::json& request_of(const nlohmann::json& line) {
    for (const char* key : {"body", "request"}) {
      if (line.contains(key) && line.at(key).is_object()) return line.at(key);
    }
    return line;
  }
  static const nlohmann::json* usage_of(const nlohmann::json& json, int depth) {
    if (!json.is_object()) return nullptr;
    if (json.contains("usage") && json.at("usage").is_object()) return &json.at("usage");
    if (depth == 0) return nullptr;
    for (const char* key : {"response", "body"}) {
      if (!json.contains(key)) continue;
      if (const nlohmann::json* const usage = usage_of(json.at(key), depth - 1)) return usage;
    }
    return nullptr;
  }
  explicit LogEntry(const nlohmann::json& json) : line(json), request(request_of(json)), usage(usage_of(json, 2)) {}

  // The first of the names that is a number, in any of the places.
  [[nodiscard]] std::optional<double> number(std::initializer_list<const char*> names) const {
    for (const nlohmann::json* place : {usage, &request, &line}) {
      if (place == nullptr) continue;
      for (const char* key : names) {
        if (place->contains(key) && place->at(key).is_number()) return place->at(key).get<double>();
      }
    }
    return std::nullopt;
  }
};

// Below the streams of requests that share nothing.
uint64_t stream_of(std::string_view text) { return fnv1a(text) >> 2; }

int32_t tokens_of_text(size_t bytes) {
  constexpr size_t kBytesPerToken = 4;
  return static_cast<int32_t>(std::min<size_t>(bytes / kBytesPerToken + 1, limits::kContextTokensMax));
}

// Of a message: all its texts, but not what says whose or of what kind it is.
size_t text_bytes(const nlohmann::json& json) {
  if (json.is_string()) return json.get_ref<const std::string&>().size();
  size_t bytes = 0;
  for (const auto& [key, value] : json.items()) {
    if (value.is_structured() || (value.is_string() && key != "role" && key != "type")) bytes += text_bytes(value);
  }
  return bytes;
}

// A prompt as a list: of one text, or of token ids.
ContentSegment listed_prompt(const TraceLines& lines, const nlohmann::json& prompt) {
  if (prompt.size() == 1 && prompt.front().is_string()) {
    const auto text = prompt.front().get<std::string>();
    return {stream_of(text), 0, tokens_of_text(text.size())};
  }
  const auto is_id = [](const nlohmann::json& token) { return token.is_number_unsigned(); };
  if (prompt.empty() || !std::ranges::all_of(prompt, is_id)) {
    lines.bad_field("prompt", prompt.dump(), "a text, a list of one text or of token ids");
  }
  return {stream_of(prompt.dump()), 0, lines.tokens("prompt", static_cast<double>(prompt.size()), 1)};
}

// Each message is a segment: conversations that begin alike share these. Empty: the line holds no contents.
std::vector<ContentSegment> contents_of(const TraceLines& lines, const nlohmann::json& request) {
  constexpr int32_t kMessageFrame = 4;  // tokens that a chat template puts around a message
  std::vector<ContentSegment> segments;
  const auto is_id = [](const nlohmann::json& token) { return token.is_number_unsigned(); };
  for (const char* key : {"messages", "input"}) {
    if (!request.contains(key) || !request.at(key).is_array()) continue;
    if (const nlohmann::json& listed = request.at(key); !listed.empty() && std::ranges::all_of(listed, is_id)) {
      segments.push_back(listed_prompt(lines, listed));
      continue;
    }
    for (const nlohmann::json& message : request.at(key)) {
      const std::string text = message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      segments.push_back({stream_of(text), 0, tokens_of_text(text_bytes(message)) + kMessageFrame});
    }
  }
  for (const char* key : {"prompt", "input"}) {
    if (!request.contains(key) || !request.at(key).is_string()) continue;
    const auto text = request.at(key).get<std::string>();
    segments.push_back({stream_of(text), 0, tokens_of_text(text.size())});
  }
  if (request.contains("prompt") && request.at("prompt").is_array()) {
    segments.push_back(listed_prompt(lines, request.at("prompt")));
  }
  return segments;
}

// Makes the segments hold `wanted` tokens, at the cost of the last ones.
void fit_to(std::vector<ContentSegment>& segments, int32_t wanted) {
  int32_t left = wanted;
  for (ContentSegment& segment : segments) {
    segment.count = std::min(segment.count, left);
    left -= segment.count;
  }
  segments.back().count += left;
  std::erase_if(segments, [](const ContentSegment& segment) { return segment.count == 0; });
}

// By its own keys: the text of a request may hold any words. What is no JSON, parse_openai_log() says.
bool is_mooncake_line(std::string_view line) {
  try {
    const nlohmann::json json(parse_json(line, "its JSON"));
    return json.contains("hash_ids") || json.contains("input_length");
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Workload parse_azure_trace(std::string_view text, const std::string& name) {
  return parse_csv(text, name, {"TIMESTAMP"}, {"ContextTokens"}, {"GeneratedTokens"});
}

Workload parse_burstgpt_trace(std::string_view text, const std::string& name) {
  return parse_csv(text, name, {"Timestamp"}, {"Request tokens"}, {"Response tokens"});
}

Workload parse_mooncake_trace(std::string_view text, const std::string& name) {
  TraceLines lines(text, name);
  Workload workload;
  std::vector<ContentSegment> prompt;
  while (lines.next()) {
    const nlohmann::json json = parse_json_line(lines);
    SimRequest request;
    const double time = number_of(lines, json, "timestamp");
    if (!(time >= 0.0 && time < 9e12)) lines.bad_field("timestamp", fmt::format("{}", time), "milliseconds, 0 or more");
    request.arrival = static_cast<TimeNs>(time * 1e6);
    request.output_tokens = lines.tokens("output_length", number_of(lines, json, "output_length"), 1);
    const int32_t length = lines.tokens("input_length", number_of(lines, json, "input_length"), 1);
    const auto hashes = json.find("hash_ids");
    if (hashes == json.end() || !hashes->is_array()) lines.bad_line("field hash_ids is missing or no list");
    if (hashes->size() != static_cast<size_t>(div_ceil(length, kMooncakeBlockTokens))) {
      lines.bad_field("hash_ids", fmt::format("{} ids", hashes->size()),
                      fmt::format("one for each {} of {} tokens", kMooncakeBlockTokens, length));
    }
    prompt.clear();
    int32_t left = length;
    for (const nlohmann::json& hash : *hashes) {
      if (!hash.is_number_unsigned()) lines.bad_field("hash_ids", hash.dump(), "whole numbers");
      const int32_t count = std::min(left, kMooncakeBlockTokens);
      prompt.push_back({hash.get<uint64_t>(), 0, count});
      left -= count;
    }
    request.output_stream = kOwnStreams + workload.requests.size();
    workload.add(request, prompt);
  }
  return workload;
}

Workload parse_openai_log(std::string_view text, const std::string& name) {
  TraceLines lines(text, name);
  Workload workload;
  std::map<std::string, uint32_t> tenants;
  std::map<std::string, TraceTimes> times;  // by field: `created` has Unix seconds beside dates in others
  std::optional<bool> first_is_timed;       // either all lines have a time, or none
  while (lines.next()) {
    const nlohmann::json json = parse_json_line(lines);
    const LogEntry entry(json);
    SimRequest request;
    bool timed = false;
    for (const char* key : {"timestamp", "created", "created_at", "time"}) {
      if (!json.contains(key)) continue;
      const nlohmann::json& value = json.at(key);
      request.arrival = times[key].read(lines, key, value.is_string() ? value.get<std::string>() : value.dump());
      timed = true;
      break;
    }
    if (first_is_timed.value_or(timed) != timed) {
      lines.bad_line(timed ? "has a time, allowed: none, as before" : "has no time, allowed: one, as before");
    }
    first_is_timed = timed;
    std::vector<ContentSegment> prompt = contents_of(lines, entry.request);
    const auto prompt_tokens = entry.number({"prompt_tokens", "input_tokens"});
    if (prompt.empty() && prompt_tokens) prompt.push_back({kOwnStreams + workload.requests.size(), 0, 0});
    if (prompt.empty()) lines.bad_line("has none of: messages, prompt, input, usage with prompt_tokens");
    if (prompt_tokens) fit_to(prompt, lines.tokens("prompt_tokens", *prompt_tokens, 1));
    const auto asked = entry.number({"max_tokens", "max_completion_tokens", "max_output_tokens"});
    const auto produced = entry.number({"completion_tokens", "output_tokens"});
    constexpr double kUnknownOutput = 128.0;
    request.max_tokens = lines.tokens("max_tokens", asked.value_or(0.0), 0);
    request.output_tokens =
        std::max(1, lines.tokens("completion_tokens", produced.value_or(asked.value_or(kUnknownOutput)), 0));
    if (entry.request.contains("user") && entry.request.at("user").is_string()) {
      const auto user = entry.request.at("user").get<std::string>();
      request.tenant =
          tenants.try_emplace(user, static_cast<uint32_t>(tenants.size() % limits::kTenantsMax)).first->second;
    }
    if (const auto priority = entry.number({"priority"})) {
      request.priority =
          static_cast<int32_t>(std::clamp(*priority, static_cast<double>(std::numeric_limits<int32_t>::min()),
                                          static_cast<double>(std::numeric_limits<int32_t>::max())));
    }
    request.output_stream = kOwnStreams + workload.requests.size();
    workload.add(request, prompt);
  }
  return workload;
}

Workload read_trace_workload(const std::string& path, const TraceOptions& options) {
  const std::string bytes = read_text_file(path);
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  const std::string_view text = std::string_view(bytes).substr(bytes.starts_with(kByteOrderMark) ? 3 : 0);
  const std::string_view first = text.substr(0, text.find('\n'));
  Workload workload;
  if (!text.empty() && text.front() == static_cast<char>(TraceRecordType::Begin)) {
    workload = parse_recording(text, path);
  } else if (first.starts_with('{')) {
    workload = is_mooncake_line(first) ? parse_mooncake_trace(text, path) : parse_openai_log(text, path);
  } else if (first.find("ContextTokens") != std::string_view::npos) {
    workload = parse_azure_trace(text, path);
  } else if (first.find("Request tokens") != std::string_view::npos) {
    workload = parse_burstgpt_trace(text, path);
  } else {
    const auto printable = [](char c) { return (c >= ' ' && c <= '~') || c == '\t' || c == '\r'; };
    const std::string what = text.empty() ? "is empty"
                             : !std::ranges::all_of(first, printable)
                                 ? "begins with bytes that are no ASCII text"
                                 : fmt::format("begins with '{}'", first.substr(0, 60));
    fail(ErrorCode::InvalidArgument,
         "{}: {}, allowed: an Azure or BurstGPT CSV header, Mooncake or OpenAI JSON lines, a recording", path, what);
  }
  if (workload.requests.empty()) fail(ErrorCode::CorruptFile, "{}: holds no requests", path);
  // Times begin at zero; order of arrival is order of ids.
  std::ranges::stable_sort(workload.requests, {}, &SimRequest::arrival);
  if (options.requests_max > 0 && options.requests_max < static_cast<int64_t>(workload.requests.size())) {
    workload.requests.resize(static_cast<size_t>(options.requests_max));
  }
  const TimeNs begin = workload.requests.front().arrival;
  for (SimRequest& request : workload.requests) {
    const double since = options.speed == 0.0 ? 0.0 : static_cast<double>(request.arrival - begin) / options.speed;
    if (since > kSimSecondsMax * 1e9) {
      fail(ErrorCode::CorruptFile, "{}: a request comes {:.3g} s after the first one, allowed: up to {:.0f} s", path,
           since * 1e-9, kSimSecondsMax);
    }
    request.arrival = static_cast<TimeNs>(since);
  }
  workload.name = path.substr(path.rfind('/') + 1);
  return workload;
}

}  // namespace inflight
