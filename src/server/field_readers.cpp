// SPDX-License-Identifier: Apache-2.0
#include "server/field_readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <string_view>

#include "server/api_error.h"
#include "server/chat_messages.h"

namespace inflight::server {
namespace {

constexpr size_t kPromptCountMax = 128;
constexpr size_t kEmbeddingCountMax = 2048;  // OpenAI's
constexpr size_t kStopTokensMax = 64;
constexpr size_t kStopTextsMax = 16;
constexpr size_t kStopBytesMax = 1024;
constexpr size_t kTextsMax = 1024;
constexpr double kBiasMax = 100;
constexpr size_t kBiasCountMax = 4096;  // of the C interface
constexpr int64_t kLogprobsMax = 20;
// Of metadata, OpenAI's.
constexpr size_t kMetadataPairsMax = 16;
constexpr size_t kMetadataKeyMax = 64;  // characters
constexpr size_t kMetadataValueMax = 512;
// The C interface takes 0 for "draw a seed"; a client that says 0 means one certain seed.
constexpr uint64_t kSeedOfZero = 0x9E3779B97F4A7C15ULL;

int64_t integer_in(const std::string& field, const Json& value, int64_t min, int64_t max) {
  const bool fits = is_whole(value) && value.get<double>() >= static_cast<double>(min) &&
                    value.get<double>() <= static_cast<double>(max);
  if (!fits) refuse(field, value, fmt::format("an integer between {} and {}", min, max));
  return value.get<int64_t>();
}

// A text, texts, ids or lists of ids.
std::vector<Prompt> read_prompt_list(const std::string& field, const Json& value, size_t most) {
  if (value.is_string()) return std::vector<Prompt>{Prompt{value.get<std::string>()}};
  if (!value.is_array() || value.empty()) {
    refuse(field, value, "a string, strings, token ids, or lists of token ids");
  }
  if (value[0].is_number()) return std::vector<Prompt>{Prompt{"", read_ids(field, value)}};
  check_count(field, value.size(), most);
  std::vector<Prompt> prompts;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", field, i);
    if (value[i].is_string()) {
      prompts.push_back({value[i].get<std::string>()});
    } else if (value[i].is_array() && !value[i].empty()) {
      prompts.push_back({"", read_ids(place, value[i])});
    } else {
      refuse(place, value[i], "a string or token ids");
    }
  }
  return prompts;
}

// A text that goes to the library as it is.
std::string read_source(const std::string& field, const Json& value) {
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    refuse(field, value, "a text of one byte or more");
  }
  refuse_nul(field, value.get_ref<const std::string&>());
  return value.get<std::string>();
}

std::vector<std::string> read_texts(const std::string& field, const Json& value, size_t most) {
  if (!value.is_array()) refuse(field, value, fmt::format("an array of at most {} texts", most));
  check_count(field, value.size(), most);
  std::vector<std::string> texts;
  for (size_t i = 0; i < value.size(); ++i) texts.push_back(read_source(fmt::format("{}[{}]", field, i), value[i]));
  return texts;
}

// One text, where `single` allows it, or a list of them.
std::vector<std::string> read_stops(const std::string& field, const Json& value, bool single) {
  if (single && !value.is_string() && !value.is_array()) {
    refuse(field, value, fmt::format("a text or an array of at most {} texts", kStopTextsMax));
  }
  const bool alone = single && value.is_string();
  std::vector<std::string> stops =
      alone ? std::vector{read_source(field, value)} : read_texts(field, value, kStopTextsMax);
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].size() <= kStopBytesMax) continue;
    const std::string place = alone ? field : fmt::format("{}[{}]", field, i);
    throw ApiError(400, fmt::format("'{}' has {} bytes, at most {} are allowed", place, stops[i].size(), kStopBytesMax),
                   place);
  }
  return stops;
}

// One of vLLM's structured_outputs.
void set_structured(const std::string& field, std::string_view kind, const Json& value, GenerationRequest& request) {
  if (!request.structured_by.empty()) {
    throw ApiError(400, fmt::format("'{}' and '{}' are given, at most one is allowed", request.structured_by, field),
                   field);
  }
  request.structured_by = field;
  if (kind == "json") {
    if (!value.is_object() && !value.is_boolean() && !value.is_string()) refuse(field, value, "a JSON Schema");
    request.structured_json = value.is_string() ? read_source(field, value) : to_text(value);
  } else if (kind == "regex") {
    request.structured_regex = read_source(field, value);
  } else if (kind == "grammar") {
    request.structured_grammar = read_source(field, value);
  } else if (kind == "choice") {
    request.structured_choice = read_texts(field, value, kTextsMax);
    if (request.structured_choice.empty()) refuse(field, value, "an array of one text or more");
  } else if (kind == "json_object") {
    if (!value.is_boolean()) refuse(field, value, "true or false");
    request.params.structured_json_object = value.get<bool>() ? 1 : 0;
    if (!value.get<bool>()) request.structured_by.clear();
  } else {
    throw ApiError(400, fmt::format("unknown field '{}', allowed: json, regex, grammar, choice, json_object", field),
                   field);
  }
}

}  // namespace

std::vector<int32_t> read_ids(const std::string& field, const Json& value) {
  std::vector<int32_t> ids;
  ids.reserve(value.size());
  for (const Json& id : value) {
    const bool fits = id.is_number_unsigned() && id.get<uint64_t>() <= INT32_MAX;  // most are: no name is made
    ids.push_back(fits ? id.get<int32_t>()
                       : static_cast<int32_t>(integer_in(fmt::format("{}[{}]", field, ids.size()), id, 0, INT32_MAX)));
  }
  return ids;
}

void read_format(const std::string& field, const Json& value, GenerationRequest& request) {
  if (!value.is_object() || !value.contains("type")) refuse(field, value, "an object with 'type'");
  const Json& type = value["type"];
  if (type == "text") return;
  request.echoed["format"] = value;
  if (type == "json_object") return set_structured(field, "json_object", true, request);
  if (type != "json_schema") refuse(field + ".type", type, R"("text", "json_object" or "json_schema")");
  const bool nested = value.contains("json_schema");
  if (!nested && !value.contains("schema") && field == "response_format") {  // the others hold the schema itself
    throw ApiError(400, "'response_format.json_schema' is missing", "response_format.json_schema");
  }
  const Json& holder = nested ? value["json_schema"] : value;
  const std::string place = nested ? field + ".json_schema" : field;
  if (!holder.is_object()) refuse(place, holder, "an object with 'schema'");
  if (!holder.contains("schema")) throw ApiError(400, fmt::format("'{}.schema' is missing", place), place + ".schema");
  if (!holder["schema"].is_object()) refuse(place + ".schema", holder["schema"], "a JSON Schema");
  const Json strict = holder.value("strict", Json());
  if (!strict.is_boolean() && !strict.is_null()) refuse(place + ".strict", strict, "true or false");
  request.params.structured_json_lenient = strict == false ? 1 : 0;
  set_structured(place + ".schema", "json", holder["schema"], request);
}

void read_prompts(const Json& value, GenerationRequest& request) {
  request.prompts = read_prompt_list("prompt", value, kPromptCountMax);
}

void read_suffix(const Json& value, GenerationRequest& request) {
  if (!value.is_string()) refuse("suffix", value, "a string");
  request.suffix = value.get<std::string>();
}

void read_query(const Json& value, GenerationRequest& request) {
  if (!value.is_string()) refuse("query", value, "a string");
  request.query = value.get<std::string>();
}

void read_rerank_documents(const Json& value, GenerationRequest& request) {
  if (!value.is_array() || value.empty()) refuse("documents", value, "a list of texts");
  check_count("documents", value.size(), kEmbeddingCountMax);
  for (size_t i = 0; i < value.size(); ++i) {
    const bool in_object = value[i].is_object() && value[i].contains("text");
    const Json& text = in_object ? value[i]["text"] : value[i];
    if (!text.is_string()) refuse(fmt::format("documents[{}]", i), value[i], R"(a string or {"text": a string})");
    request.prompts.push_back({.text = text.get<std::string>()});
  }
}

void read_embedding_input(const Json& value, GenerationRequest& request) {
  request.prompts = read_prompt_list("input", value, kEmbeddingCountMax);
}

void read_dimensions(const Json& value, GenerationRequest& request) {
  request.dimensions = static_cast<int32_t>(integer_in("dimensions", value, 1, INT32_MAX));
}

void read_encoding_format(const Json& value, GenerationRequest& request) {
  if (value != "float" && value != "base64") refuse("encoding_format", value, R"("float" or "base64")");
  request.base64 = value == "base64";
}

void read_pooling(const Json& value, GenerationRequest& request) {
  if (value != "mean" && value != "last") refuse("pooling", value, R"("mean" or "last")");
  request.params.pooling = value == "mean" ? INFLIGHT_POOLING_MEAN : INFLIGHT_POOLING_LAST;
}

void read_chat_messages(const Json& value, GenerationRequest& request) { request.messages = read_messages(value); }

void read_input(const Json& value, GenerationRequest& request) {
  for (Json& message : read_response_input(value)) request.messages.push_back(std::move(message));
}

void read_instructions(const Json& value, GenerationRequest& request) {
  if (!value.is_string()) refuse("instructions", value, "a string");
  Json message = Json::object();
  message["role"] = "system";
  message["content"] = value;
  request.messages.insert(request.messages.begin(), std::move(message));  // whichever field comes first in the body
  request.echoed["instructions"] = value;
}

void read_stop(const Json& value, GenerationRequest& request) { request.stop = read_stops("stop", value, true); }

void read_stop_sequences(const Json& value, GenerationRequest& request) {
  request.stop = read_stops("stop_sequences", value, false);
}

void read_bad_words(const Json& value, GenerationRequest& request) {
  request.bad_words = read_texts("bad_words", value, kTextsMax);
}

void read_dry_sequence_breakers(const Json& value, GenerationRequest& request) {
  request.dry_sequence_breakers = read_texts("dry_sequence_breakers", value, kStopTextsMax);
}

void read_logit_bias(const Json& value, GenerationRequest& request) {
  if (!value.is_object()) refuse("logit_bias", value, "an object of token ids and numbers");
  check_count("logit_bias", value.size(), kBiasCountMax);
  for (const auto& [name, bias] : value.items()) {
    const std::string place = "logit_bias." + name;
    int32_t id = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc() || end != name.data() + name.size() || id < 0) {
      throw ApiError(400, fmt::format("'logit_bias' names the token '{}', ids from 0 on are expected", name), place);
    }
    if (!bias.is_number() || std::abs(bias.get<double>()) > kBiasMax) {
      refuse(place, bias, fmt::format("a number between -{0} and {0}", kBiasMax));
    }
    request.logit_bias.emplace_back(id, bias.get<float>());
  }
}

void read_top_k(const Json& value, GenerationRequest& request) {
  const int64_t top_k = integer_in("top_k", value, -1, INT32_MAX);
  request.params.top_k = top_k < 0 ? 0 : static_cast<int32_t>(top_k);
}

void read_seed(const Json& value, GenerationRequest& request) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: whole numbers up to it may be written with a fraction of 0
  if (value.is_number_float() && is_whole(value) && std::abs(value.get<double>()) <= kExact) {
    return read_seed(static_cast<int64_t>(value.get<double>()), request);
  }
  if (!value.is_number_integer()) {
    refuse("seed", value, fmt::format("an integer between {} and {}", INT64_MIN, UINT64_MAX));
  }
  const uint64_t seed =
      value.is_number_unsigned() ? value.get<uint64_t>() : static_cast<uint64_t>(value.get<int64_t>());
  request.params.seed = seed == 0 ? kSeedOfZero : seed;
}

void read_stop_token_ids(const Json& value, GenerationRequest& request) {
  if (!value.is_array()) {
    refuse("stop_token_ids", value, fmt::format("an array of at most {} token ids", kStopTokensMax));
  }
  check_count("stop_token_ids", value.size(), kStopTokensMax);
  request.stop_token_ids = read_ids("stop_token_ids", value);
}

void read_stream_options(const Json& value, GenerationRequest& request) {
  const std::string path = "stream_options";
  check_object(path, value);
  check_names(value, {"include_usage", "include_obfuscation", "continuous_usage_stats"}, path);
  request.include_usage = flag_at(value, "include_usage", path);
  request.continuous_usage = flag_at(value, "continuous_usage_stats", path);
  static_cast<void>(flag_at(value, "include_obfuscation", path));
}

void read_completion_logprobs(const Json& value, GenerationRequest& request) {
  request.top_logprobs = static_cast<int32_t>(integer_in("logprobs", value, 0, kLogprobsMax));
  request.logprobs = true;
}

void read_chat_tools(const Json& value, GenerationRequest& request) { request.tools = read_tools(value, false); }

void read_flat_tools(const Json& value, GenerationRequest& request) { request.tools = read_tools(value, true); }

void read_choice(const Json& value, GenerationRequest& request) { request.tool_choice = read_tool_choice(value); }

void read_template_variables(const Json& value, GenerationRequest& request) {
  check_object("chat_template_kwargs", value);
  request.template_variables.update(value);
}

void read_documents(const Json& value, GenerationRequest& request) {
  if (!value.is_array()) refuse("documents", value, "an array of objects");
  request.template_variables["documents"] = value;
}

void read_skip_special_tokens(const Json& value, GenerationRequest& request) {
  if (!value.is_boolean()) refuse("skip_special_tokens", value, "true or false");
  request.params.show_special_tokens = value.get<bool>() ? 0 : 1;
}

void read_guided_json(const Json& value, GenerationRequest& request) {
  set_structured("guided_json", "json", value, request);
}

void read_guided_regex(const Json& value, GenerationRequest& request) {
  set_structured("guided_regex", "regex", value, request);
}

void read_guided_grammar(const Json& value, GenerationRequest& request) {
  set_structured("guided_grammar", "grammar", value, request);
}

void read_guided_choice(const Json& value, GenerationRequest& request) {
  set_structured("guided_choice", "choice", value, request);
}

void read_structured_outputs(const Json& value, GenerationRequest& request) {
  check_object("structured_outputs", value);
  for (const auto& [name, wanted] : value.items()) {
    if (!wanted.is_null()) set_structured("structured_outputs." + name, name, wanted, request);
  }
}

void read_response_format(const Json& value, GenerationRequest& request) {
  read_format("response_format", value, request);
}

void read_prediction(const Json& value, GenerationRequest& request) {
  constexpr const char* kAllowed = R"({"type": "content", "content": a text or a list of text parts})";
  if (!value.is_object() || text_at(value, "type", "prediction") != "content") refuse("prediction", value, kAllowed);
  const Json* const content = find(value, "content");
  if (content != nullptr && content->is_array()) {
    for (const Json& part : *content) {
      if (!part.is_object() || text_at(part, "type", "prediction.content") != "text") {
        refuse("prediction.content", part, "parts of type text");
      }
      request.prediction += text_at(part, "text", "prediction.content");
    }
  } else {
    request.prediction = text_at(value, "content", "prediction");
  }
  refuse_nul("prediction", request.prediction);
}

void read_metadata(const Json& value, GenerationRequest& request) {
  if (!value.is_object()) refuse("metadata", value, "an object of texts");
  check_count("metadata", value.size(), kMetadataPairsMax);
  for (const auto& [name, text] : value.items()) {
    if (const size_t length = character_count(name); length > kMetadataKeyMax) {
      throw ApiError(
          400, fmt::format("'metadata' has a name of {} characters, at most {} are allowed", length, kMetadataKeyMax),
          "metadata");
    }
    const std::string place = "metadata." + name;
    if (!text.is_string()) refuse(place, text, "a text");
    if (const size_t length = character_count(text.get_ref<const std::string&>()); length > kMetadataValueMax) {
      throw ApiError(
          400, fmt::format("'{}' has {} characters, at most {} are allowed", place, length, kMetadataValueMax), place);
    }
  }
  request.echoed["metadata"] = value;
}

namespace {

constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
constexpr std::string_view kSummaries[] = {"auto", "concise", "detailed"};

const std::string& word_of(std::span<const std::string_view> allowed, const std::string& field, const Json& value) {
  if (!value.is_string() || std::ranges::find(allowed, value.get_ref<const std::string&>()) == allowed.end()) {
    refuse(field, value, fmt::format("one of {}", fmt::join(allowed, ", ")));
  }
  return value.get_ref<const std::string&>();
}

}  // namespace

void read_reasoning(const Json& value, GenerationRequest& request) {
  check_object("reasoning", value);
  check_names(value, {"effort", "summary", "generate_summary"}, "reasoning");
  Json echoed = Json::object();
  for (const auto& [name, wish] : value.items()) {
    const bool is_effort = name == "effort";
    if (wish.is_null()) continue;
    const auto allowed = is_effort ? std::span<const std::string_view>(kEfforts) : kSummaries;
    const std::string& word = word_of(allowed, "reasoning." + name, wish);
    if (is_effort) request.reasoning_effort = word;
    echoed[is_effort ? "effort" : "summary"] = word;
  }
  request.echoed["reasoning"] = std::move(echoed);
}

void read_reasoning_effort(const std::string& field, const Json& value, GenerationRequest& request) {
  request.reasoning_effort = word_of(kEfforts, field, value);
}

void read_reasoning_effort(const Json& value, GenerationRequest& request) {
  read_reasoning_effort("reasoning_effort", value, request);
}

void read_truncation(const Json& value, GenerationRequest&) {
  if (value == "disabled") return;
  refuse("truncation", value, "\"disabled\" (\"auto\" is not supported: nothing is left out of a conversation)");
}

void read_text_format(const Json& value, GenerationRequest& request) {
  check_object("text", value);
  check_names(value, {"format", "verbosity"}, "text");
  if (const Json* const format = find(value, "format")) read_format("text.format", *format, request);
}

}  // namespace inflight::server
