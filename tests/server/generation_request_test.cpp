// SPDX-License-Identifier: Apache-2.0
// Request bodies to checked requests; every error names its field. Truth: OpenAI's published API reference.
#include "server/generation_request.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "server/api_error.h"
#include "server/request_fields.h"

namespace inflight::server {
namespace {

GenerationRequest read(const std::string& body, unsigned endpoint) {
  return read_generation_request(parse_json_object(body), endpoint);
}

// The field that the error names, and the text.
std::pair<std::string, std::string> error_of(const std::string& body, unsigned endpoint) {
  try {
    static_cast<void>(read(body, endpoint));
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400);
    return {error.param(), error.what()};
  }
  return {"no error", ""};
}

TEST(GenerationRequest, ReadsACompletion) {
  const GenerationRequest request =
      read(R"({"model": "m", "prompt": "Hi", "max_tokens": 7, "temperature": 0.5, "top_p": 0.9,
    "top_k": -1, "min_p": 0.1, "seed": -3, "n": 2, "stream": true, "stream_options": {"include_usage": true},
    "stop_token_ids": [1, 2], "ignore_eos": true, "priority": -4, "cache_salt": "s", "user": "u", "suffix": null})",
           kCompletions);
  EXPECT_EQ(request.model, "m");
  ASSERT_EQ(request.prompts.size(), 1U);
  EXPECT_EQ(request.prompts[0].text, "Hi");
  EXPECT_EQ(request.params.max_tokens, 7);
  EXPECT_EQ(request.params.temperature, 0.5F);
  EXPECT_EQ(request.params.top_p, 0.9F);
  EXPECT_EQ(request.params.top_k, 0);
  EXPECT_EQ(request.params.min_p, 0.1F);
  EXPECT_EQ(request.params.seed, static_cast<uint64_t>(-3));
  EXPECT_EQ(request.params.n, 2);
  EXPECT_TRUE(request.stream && request.include_usage);
  EXPECT_EQ(request.stop_token_ids, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(request.params.ignore_eos, 1);
  EXPECT_EQ(request.params.priority, -4);
  EXPECT_EQ(request.cache_salt, "s");
  EXPECT_EQ(request.suffix, std::nullopt);
  EXPECT_EQ(read(R"({"prompt": ["", "x"], "suffix": ""})", kCompletions).suffix, "");
}

TEST(GenerationRequest, ReadsEveryGenerationOption) {
  const GenerationRequest request = read(R"({"prompt": "Hi", "max_tokens": 9, "min_tokens": 4, "typical_p": 0.5,
    "repetition_penalty": 1.5, "presence_penalty": -2, "frequency_penalty": 2, "dry_multiplier": 0.75, "dry_base": 3,
    "dry_allowed_length": 5, "dry_penalty_last_n": 64, "dry_sequence_breakers": [".", "!"],
    "logit_bias": {"7": -100, "0": 1.5}, "bad_words": ["fox"], "n": 2, "best_of": 3, "stop": ["a", "b"],
    "include_stop_str_in_output": true, "logprobs": 4, "echo": true, "prompt_logprobs": 6, "tenant": 4095})",
                                         kCompletions);
  const inflight_request_params_t& params = request.params;
  EXPECT_EQ(params.min_tokens, 4);
  EXPECT_EQ(params.typical_p, 0.5F);
  EXPECT_EQ(params.repetition_penalty, 1.5F);
  EXPECT_EQ(params.presence_penalty, -2.0F);
  EXPECT_EQ(params.frequency_penalty, 2.0F);
  EXPECT_EQ(params.dry_multiplier, 0.75F);
  EXPECT_EQ(params.dry_base, 3.0F);
  EXPECT_EQ(params.dry_allowed_length, 5);
  EXPECT_EQ(params.dry_penalty_last_n, 64);
  EXPECT_EQ(request.dry_sequence_breakers, (std::vector<std::string>{".", "!"}));
  EXPECT_EQ(request.logit_bias, (std::vector<std::pair<int32_t, float>>{{7, -100.0F}, {0, 1.5F}}));
  EXPECT_EQ(request.bad_words, std::vector<std::string>{"fox"});
  EXPECT_EQ(params.n, 2);
  EXPECT_EQ(params.best_of, 3);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(params.include_stop_str_in_output, 1);
  EXPECT_EQ(params.logprobs, 4);
  EXPECT_EQ(params.prompt_logprobs, 6);  // the larger of both wishes
  EXPECT_EQ(request.tenant, 4095);
  EXPECT_EQ(read(R"({"prompt": "x", "stop": "one"})", kCompletions).stop, std::vector<std::string>{"one"});
  EXPECT_EQ(read(R"({"prompt": "x", "logprobs": 0, "echo": true})", kCompletions).params.prompt_logprobs, 0);
  EXPECT_EQ(read(R"({"prompt": "x", "echo": true})", kCompletions).params.prompt_logprobs, -1);
}

TEST(GenerationRequest, HasOpenAIsDefaults) {
  EXPECT_EQ(read(R"({"prompt": "x"})", kCompletions).params.max_tokens, 16);
  EXPECT_EQ(read(R"({"prompt": "x", "max_tokens": 7.0})", kCompletions).params.max_tokens, 7);  // an integer in JSON
  const GenerationRequest chat = read(R"({"messages": [{"role": "user", "content": "x"}]})", kChat);
  EXPECT_GT(chat.params.max_tokens, 1'000'000);  // to the end of the context
  EXPECT_EQ(chat.params.temperature, 1.0F);
  EXPECT_FALSE(chat.stream);
  EXPECT_NE(read(R"({"prompt": "x", "seed": 0})", kCompletions).params.seed, 0U);  // 0 would mean "draw one"
}

TEST(GenerationRequest, ReadsPromptsInAllFourForms) {
  EXPECT_EQ(read(R"({"prompt": ["a", "b"]})", kCompletions).prompts[1].text, "b");
  EXPECT_EQ(read(R"({"prompt": [5, 6]})", kCompletions).prompts[0].ids, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(read(R"({"prompt": [[5], [6, 7]]})", kCompletions).prompts[1].ids, (std::vector<int32_t>{6, 7}));
}

struct Fault {
  unsigned endpoint;
  std::string body;
  const char* param;
  const char* says;
};

void expect_faults(const std::vector<Fault>& faults) {
  for (const Fault& each : faults) {
    const auto [param, message] = error_of(each.body, each.endpoint);
    EXPECT_EQ(param, each.param) << each.body << ": " << message;
    EXPECT_NE(message.find(each.says), std::string::npos) << each.body << ": " << message;
  }
}

TEST(GenerationRequest, NamesTheFieldAtFault) {
  const std::string chat = R"({"messages": [{"role": "user", "content": "x"}], )";
  expect_faults({
      {kCompletions, R"({})", "prompt", "missing"},
      {kCompletions, R"({"prompt": null})", "prompt", "missing"},
      {kCompletions, R"({"prompt": {}})", "prompt", "an object"},
      {kCompletions, R"({"prompt": []})", "prompt", "an empty array"},
      {kCompletions, R"({"prompt": [1, -1]})", "prompt[1]", "-1"},
      {kCompletions, R"({"prompt": [1, 1.5]})", "prompt[1]", "'prompt[1]' is 1.5"},
      {kCompletions, R"({"prompt": ["a", 1]})", "prompt[1]", "1"},
      {kCompletions, R"({"prompt": [[1], []]})", "prompt[1]", "an empty array"},
      {kCompletions, R"({"prompt": "x", "guided_choice": []})", "guided_choice", "an empty array"},
      {kCompletions, R"({"prompt": "x", "seed": 1e20})", "seed",
       "between -9223372036854775808 and 18446744073709551615"},
      {kCompletions, R"({"prompt": "x", "max_tokens": -1})", "max_tokens", "between 0"},
      {kChat, R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 0})", "max_tokens", "between 1"},
      {kCompletions, R"({"prompt": "x", "max_tokens": 1.5})", "max_tokens", "integer"},
      {kCompletions, R"({"prompt": "x", "max_tokens": 99999999999})", "max_tokens", "99999999999"},
      {kCompletions, R"({"prompt": "x", "max_tokens": 18446744073709551615})", "max_tokens", "integer"},
      {kCompletions, R"({"prompt": "x", "temperature": "hot"})", "temperature", "\"hot\""},
      {kCompletions, R"({"prompt": "x", "temperature": -1})", "temperature", "between 0"},
      {kCompletions, R"({"prompt": "x", "top_p": -0.5})", "top_p", "between 0 and 1"},
      {kCompletions, R"({"prompt": "x", "n": 0})", "n", "between 1 and 128"},
      {kCompletions, R"({"prompt": ["x", "y"], "n": 100})", "n", "200"},
      {kCompletions, R"({"prompt": ["x", "y"], "n": 1, "best_of": 100})", "best_of", "200"},
      {kCompletions, R"({"prompt": "x", "n": 4, "best_of": 2})", "best_of", "at least 'n' = 4"},
      {kCompletions, R"({"prompt": "x", "best_of": 2, "stream": true})", "best_of", "streamed"},
      {kCompletions, R"({"prompt": "x", "repetition_penalty": 0})", "repetition_penalty", "above 0 and at most 10"},
      {kCompletions, R"({"prompt": "x", "typical_p": 1.1})", "typical_p", "above 0 and at most 1"},
      {kCompletions, R"({"prompt": "x", "presence_penalty": 2.5})", "presence_penalty", "between -2 and 2"},
      {kCompletions, R"({"prompt": "x", "frequency_penalty": "1"})", "frequency_penalty", "\"1\""},
      {kCompletions, R"({"prompt": "x", "min_tokens": 17})", "min_tokens", "max_tokens = 16"},
      {kCompletions, R"({"prompt": "x", "dry_base": 0.5})", "dry_base", "between 1"},
      {kCompletions, R"({"prompt": "x", "dry_allowed_length": 0})", "dry_allowed_length", "between 1"},
      {kCompletions, R"({"prompt": "x", "dry_sequence_breakers": "."})", "dry_sequence_breakers", "array"},
      {kCompletions, R"({"prompt": "x", "logit_bias": [1]})", "logit_bias", "object"},
      {kCompletions, R"({"prompt": "x", "logit_bias": {"x": 1}})", "logit_bias.x", "'x'"},
      {kCompletions, R"({"prompt": "x", "logit_bias": {"1": 101}})", "logit_bias.1", "101"},
      {kCompletions, R"({"prompt": "x", "stop": ""})", "stop", "one byte"},
      {kCompletions, R"({"prompt": "x", "stop": ["a", 5]})", "stop[1]", "5"},
      {kCompletions, R"({"prompt": "x", "stop": ["a\u0000b"]})", "stop[0]", "NUL"},
      {kCompletions, R"({"prompt": "x", "stop": 5})", "stop", "a text or an array"},
      {kCompletions, R"({"prompt": "x", "bad_words": [""]})", "bad_words[0]", "one byte"},
      {kCompletions, R"({"prompt": "x", "logprobs": 21})", "logprobs", "between 0 and 20"},
      {kCompletions, R"({"prompt": "x", "echo": true, "logprobs": 1, "stream": true})", "echo", "streamed"},
      {kCompletions, R"({"prompt": "x", "prompt_logprobs": 1, "stream": true})", "prompt_logprobs", "streamed"},
      {kCompletions, R"({"prompt": "x", "tenant": 4096})", "tenant", "4095"},
      {kChat, chat + R"("max_completion_tokens": 0})", "max_completion_tokens", "between 1"},
      {kResponses, R"({"input": "x", "best_of": 2})", "best_of", "unknown field"},
      {kChat, chat + R"("top_logprobs": 2})", "top_logprobs", "'logprobs': true"},
      {kCompletions, R"({"prompt": "x", "n": true})", "n", "true"},
      {kCompletions, R"({"prompt": "x", "stream": 1})", "stream", "true or false"},
      {kCompletions, R"({"prompt": "x", "stream_options": {}})", "stream_options", "'stream': true"},
      {kCompletions, R"({"prompt": "x", "stream": true, "stream_options": {"a": 1}})", "stream_options.a", "unknown"},
      {kCompletions, R"({"prompt": "x", "tempratur": 1})", "tempratur", "unknown field"},
      {kCompletions, R"({"prompt": "x", "messages": []})", "messages", "unknown field"},
      {kCompletions, R"({"prompt": "x", "suffix": 5})", "suffix", "a string is expected"},
      {kCompletions, R"({"prompt": ["x", [1]], "suffix": "y"})", "suffix", "'prompt' as text"},
      {kChat, chat + R"("suffix": "y"})", "suffix", "unknown field"},
      {kCompletions, R"({"prompt": "x", "model": 4})", "model", "string"},
      {kCompletions, R"({"prompt": "x", "stop_token_ids": 4})", "stop_token_ids", "array"},
      {kCompletions, R"({"prompt": "x", "priority": 3000000000})", "priority", "3000000000"},
      {kChat, R"({"messages": []})", "messages", "has 0 entries, allowed: 1 to"},
      {kChat, R"({"messages": "hi"})", "messages", "'messages' is \"hi\", an array of messages is expected"},
      {kChat, R"({"messages": [{"role": "boss", "content": "x"}]})", "messages[0].role", "boss"},
      {kChat, R"({"messages": [{"role": "user"}]})", "messages[0].content", "missing"},
      {kChat, R"({"messages": [{"content": "x"}]})", "messages[0].role", "missing"},
      {kChat, R"({"messages": ["x"]})", "messages[0]", "object"},
      {kChat, R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}]})",
       "messages[0].content[0].type", "text only"},
      {kChat, chat + R"("modalities": ["audio"]})", "modalities", "not supported"},
      {kChat, chat + R"("top_logprobs": 21})", "top_logprobs", "between"},
      {kChat, chat + R"("tools": [{"type": "web"}]})", "tools[0].type", "web"},
      {kChat, chat + R"("tools": [{"type": "function", "function": {"name": "a b"}}]})", "tools[0].function.name",
       "1 to 128"},
      {kChat, chat + R"("tool_choice": "maybe"})", "tool_choice", "maybe"},
      {kChat, chat + R"("response_format": {"type": "xml"}})", "response_format.type", "xml"},
      {kChat, chat + R"("response_format": {"type": "json_schema", "json_schema": {"name": "x"}}})",
       "response_format.json_schema.schema", "'response_format.json_schema.schema' is missing"},
      {kResponses, R"({"input": "x", "text": {"format": {"type": "json_schema"}}})", "text.format.schema", "missing"},
      {kChat, chat + R"("functions": []})", "functions", "use 'tools'"},
      {kResponses, R"({"input": []})", "input", "1 to"},
      {kResponses, R"({"input": null, "instructions": "x"})", "input", "missing"},
      {kResponses, R"({"input": [{"type": "reasoning", "summary": []}]})", "input", "nothing but reasoning"},
      {kResponses, R"({"instructions": "x"})", "input", "missing"},
      {kResponses, R"({"input": "x", "previous_response_id": "r"})", "previous_response_id", "not stored"},
      {kResponses, R"({"input": [{"type": "item_reference", "id": "m"}]})", "input[0]", "answers are not stored"},
      {kResponses, R"({"input": [{"type": "computer_call"}]})", "input[0].type", "\"computer_call\", allowed"},
  });
}

std::string repeated(const std::string& item, int count) {
  std::string list = item;
  for (int i = 1; i < count; ++i) list += "," + item;
  return list;
}

TEST(GenerationRequest, NamesThePartOfAFieldAtFault) {
  const std::string chat = R"({"messages": [{"role": "user", "content": "x"}], )";
  expect_faults({
      {kCompletions, R"({"prompt": [50, 1.5]})", "prompt[1]", "'prompt[1]' is 1.5"},
      {kCompletions, R"({"prompt": [[50, -1]]})", "prompt[0][1]", "'prompt[0][1]' is -1"},
      {kCompletions, R"({"prompt": "x", "stop_token_ids": [7, -5]})", "stop_token_ids[1]", "'stop_token_ids[1]' is -5"},
      {kChat, chat + R"("response_format": {"type": "json_schema"}})", "response_format.json_schema",
       "'response_format.json_schema' is missing"},
      {kChat, chat + R"("tools": [{"type": "function"}]})", "tools[0].function.name",
       "'tools[0].function.name' is missing"},
      {kResponses, R"({"input": "x", "tools": [{"type": "function"}]})", "tools[0].name", "'tools[0].name' is missing"},
  });
}

TEST(GenerationRequest, TellsHowManyEntriesAreTooMany) {
  const std::string prompt = R"({"prompt": "x", )";
  const std::string turn = R"({"messages": [{"role": "user", "content": "x"}], )";
  expect_faults({
      {kCompletions, prompt + R"("stop": [)" + repeated(R"("a")", 100) + "]}", "stop",
       "'stop' has 100 entries, at most 16 are allowed"},
      {kMessages, turn + R"("stop_sequences": [)" + repeated(R"("a")", 17) + "]}", "stop_sequences",
       "'stop_sequences' has 17 entries, at most 16 are allowed"},
      {kCompletions, prompt + R"("stop_token_ids": [)" + repeated("1", 65) + "]}", "stop_token_ids",
       "'stop_token_ids' has 65 entries, at most 64 are allowed"},
      {kCompletions, prompt + R"("bad_words": [)" + repeated(R"("a")", 1025) + "]}", "bad_words",
       "'bad_words' has 1025 entries, at most 1024 are allowed"},
      {kCompletions, prompt + R"("dry_sequence_breakers": [)" + repeated(R"("a")", 17) + "]}", "dry_sequence_breakers",
       "'dry_sequence_breakers' has 17 entries, at most 16 are allowed"},
      {kChat, turn + R"("tools": [)" + repeated("{}", 513) + "]}", "tools", "'tools' has 513 entries, at most 512 are"},
      {kChat, turn + R"("tools": 5})", "tools", "'tools' is 5, an array is expected"},
      {kCompletions, prompt + R"("stop": [")" + std::string(1025, 'x') + "\"]}", "stop[0]",
       "'stop[0]' has 1025 bytes, at most 1024 are allowed"},
      {kCompletions, prompt + R"("stop": ")" + std::string(1025, 'x') + "\"}", "stop", "'stop' has 1025 bytes"},
      {kCompletions, prompt + R"("guided_regex": ["a"]})", "guided_regex", "is an array, a text of one byte or more"},
  });
}

// Truth: OpenAI's published reference of the Responses API.
TEST(GenerationRequest, ReadsWhatAResponseRepeats) {
  const GenerationRequest request = read(R"({"input": "x", "metadata": {"a": "b", "": ""}, "truncation": "disabled",
      "reasoning": {"effort": "high", "summary": null, "generate_summary": "auto"}})",
                                         kResponses);
  EXPECT_EQ(request.echoed["metadata"], Json::parse(R"({"a": "b", "": ""})"));
  EXPECT_EQ(request.echoed["reasoning"], Json::parse(R"({"effort": "high", "summary": "auto"})"));
  const auto pairs = [](int count) {
    std::string text = R"("k": "v")";
    for (int i = 1; i < count; ++i) text += fmt::format(R"(, "k{}": "v")", i);
    return R"({"input": "x", "metadata": {)" + text + "}}";
  };
  std::string wide;
  for (int i = 0; i < 512; ++i) wide += "ü";
  EXPECT_EQ(read(pairs(16), kResponses).echoed["metadata"].size(), 16U);
  EXPECT_EQ(read(R"({"input": "x", "metadata": {"k": ")" + wide + "\"}}", kResponses).echoed["metadata"]["k"], wide);
  expect_faults({
      {kResponses, R"({"input": "x", "truncation": "banana"})", "truncation",
       R"('truncation' is "banana", "disabled")"},
      {kResponses, R"({"input": "x", "truncation": "auto"})", "truncation", R"("auto" is not supported: )"},
      {kResponses, pairs(17), "metadata", "'metadata' has 17 entries, at most 16 are allowed"},
      {kResponses, R"({"input": "x", "metadata": "a"})", "metadata", "an object of texts"},
      {kResponses, R"({"input": "x", "metadata": {"a": 5}})", "metadata.a", "is 5, a text is expected"},
      {kResponses, R"({"input": "x", "metadata": {"a": ")" + wide + "x\"}}", "metadata.a",
       "'metadata.a' has 513 characters, at most 512"},
      {kResponses, R"({"input": "x", "metadata": {")" + std::string(65, 'k') + R"(": "v"}})", "metadata",
       "a name of 65 characters, at most 64"},
      {kResponses, R"({"input": "x", "reasoning": {"effort": "huge"}})", "reasoning.effort", "\"huge\", one of none, "},
      {kResponses, R"({"input": "x", "reasoning": {"depth": 1}})", "reasoning.depth", "allowed: effort, summary"},
  });
}

TEST(GenerationRequest, NamesTheFieldAtFaultOfAnthropicsForm) {
  const std::string turn = R"({"messages": [{"role": "user", "content": )";
  expect_faults({
      {kMessages, turn + R"([{"type": "image", "source": {}}]}]})", "messages[0].content[0].type", "'image', allowed"},
      {kMessages, turn + R"([{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}]})",
       "messages[0].content[0].type", "allowed for role user: text, tool_result"},
      {kMessages, turn + R"([{"type": "tool_result"}]}]})", "messages[0].content[0].tool_use_id", "missing"},
      {kMessages, turn + R"([]}]})", "messages", "no content"},
      {kMessages, turn + R"("x"}], "tools": [{"type": "web_search_20250305", "name": "web_search"}]})", "tools[0].type",
       "allowed: custom"},
      {kMessages, turn + R"("x"}], "tools": [{"name": "f"}]})", "tools[0].input_schema", "a JSON Schema"},
      {kMessages, turn + R"("x"}], "tool_choice": {"type": "required"}})", "tool_choice.type", "auto, any, tool, none"},
      {kMessages, turn + R"("x"}], "tool_choice": {"type": "any"}})", "tool_choice", "no 'tools'"},
      {kMessages, turn + R"("x"}], "stop": "y"})", "stop", "unknown"},
      {kMessages, turn + R"("x"}], "output_config": {"format": {"type": "xml"}}})", "output_config.format.type", "xml"},
      {kMessages, R"({"messages": [{"role": "tool", "content": "x"}]})", "messages[0].role", "user, assistant, system"},
      {kMessages, R"({"messages": [{"role": "system", "content": [{"type": "image"}]}]})",
       "messages[0].content[0].type", "allowed for role system: text"},
      {kMessages, R"({"max_tokens": 4})", "messages", "missing"},
  });
}

TEST(GenerationRequest, NamesWhatIsWrongWithAChoice) {
  const std::string begin =
      R"({"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "name": "f"}], )";
  const std::string allowed = R"("tool_choice": {"type": "allowed_tools", "allowed_tools": )";
  const struct {
    std::string body, param, says;
  } cases[] = {
      {allowed + R"({"mode": "auto", "tools": [{"type": "function", "name": "g"}]}}})", "tool_choice", "allows 'g'"},
      {allowed + R"({"mode": "none", "tools": []}}})", "tool_choice.allowed_tools.mode", "auto, required"},
      {allowed + R"({"mode": "auto", "tools": []}}})", "tool_choice.allowed_tools.tools", "no tools"},
      {R"("tool_choice": {"type": "function", "function": {"name": "g"}}})", "tool_choice", "the tools are: f"},
      {R"("n": 3, "best_of": 2})", "best_of", "at least"},
      {R"("n": 2, "best_of": 3, "stream": true})", "best_of", "streamed"},
  };
  for (const auto& each : cases) {
    const auto [param, message] = error_of(begin + each.body, kChat);
    EXPECT_EQ(param, each.param) << each.body << ": " << message;
    EXPECT_NE(message.find(each.says), std::string::npos) << each.body << ": " << message;
  }
}

TEST(GenerationRequest, RefusesWhatIsNoJson) {
  const std::string deep = std::string(1000, '[') + std::string(1000, ']');
  for (const std::string& body :
       std::vector<std::string>{"", "{", "[1]", "nul", "{\"a\": \"\xff\"}", "{\"a\": \"\\ud800\"}", "{} x",
                                "{\"a\": 1,}", "{\"a\": " + deep + "}", "{\"a\": 1e999}"}) {
    EXPECT_THROW(static_cast<void>(parse_json_object(body)), ApiError) << body;
  }
}

// JSON within a text of the body is as deep as the body may be, or it stays a text.
TEST(GenerationRequest, DeepArgumentsStayText) {
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  const std::string call = R"({"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "type": "function",
      "function": {"name": "f", "arguments": ")" +
                           deep + R"("}}]}]})";
  EXPECT_EQ(read(call, kChat).messages[0]["tool_calls"][0]["function"]["arguments"], deep);
  const std::string item =
      R"({"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": ")" + deep + R"("}]})";
  EXPECT_EQ(read(item, kResponses).messages[0]["tool_calls"][0]["function"]["arguments"], deep);
  const std::string most = std::string(kJsonDepthMax, '[') + std::string(kJsonDepthMax, ']');
  EXPECT_EQ(to_text(parse_json(most)), most);
  EXPECT_TRUE(parse_json("[" + most + "]").is_discarded());
}

TEST(GenerationRequest, TheNewerNameOfMaxTokensCountsInAnyOrder) {
  const std::string chat = R"({"messages": [{"role": "user", "content": "x"}], )";
  EXPECT_EQ(read(chat + R"("max_tokens": 6, "max_completion_tokens": 3})", kChat).params.max_tokens, 3);
  EXPECT_EQ(read(chat + R"("max_completion_tokens": 3, "max_tokens": 6})", kChat).params.max_tokens, 3);
  EXPECT_EQ(read(chat + R"("max_completion_tokens": null, "max_tokens": 6})", kChat).params.max_tokens, 6);
}

TEST(GenerationRequest, ReadsNothingBehindANul) {
  const std::string body = R"({"prompt": "x"})";
  const std::string_view behind("\0{", 2);
  EXPECT_EQ(error_of(body + std::string(behind), kCompletions).second,
            "the request's body is not valid JSON: byte 16 is NUL");
  EXPECT_TRUE(parse_json(body + std::string(behind)).is_discarded());
  EXPECT_FALSE(parse_json(R"({"prompt": "\u0000"})").is_discarded());
}

TEST(GenerationRequest, RefusesObjectsOfManyMembers) {
  std::string body = R"({"0":0)";
  for (int i = 1; i < 500'000; ++i) body += ",\"" + std::to_string(i) + "\":0";
  EXPECT_EQ(error_of(body + "}", kChat).second,
            "the request's body has objects of too many members, allowed: one of 14000, or smaller ones");
}

TEST(GenerationRequest, BringsConversationsToTheTemplatesForm) {
  const GenerationRequest request = read(R"({"messages": [
      {"role": "developer", "content": "Be brief."},
      {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
      {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",
        "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
      {"role": "tool", "tool_call_id": "c1", "content": "2"}],
      "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
      "chat_template_kwargs": {"enable_thinking": false}})",
                                         kChat);
  const Json expected = Json::parse(R"([
      {"role": "system", "content": "Be brief."},
      {"role": "user", "content": "a\nb"},
      {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function",
        "function": {"name": "f", "arguments": {"x": 1}}}]},
      {"role": "tool", "content": "2", "tool_call_id": "c1"}])");
  EXPECT_EQ(request.messages, expected);
  const Json rendered = Json::parse(chat_render_json(request));
  EXPECT_EQ(rendered["enable_thinking"], false);
  EXPECT_EQ(rendered["add_generation_prompt"], true);
  EXPECT_EQ(rendered["tools"][0]["function"]["name"], "f");
}

TEST(GenerationRequest, ReadsAResponsesConversation) {
  const GenerationRequest request = read(R"({"input": [
      {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
      {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
      {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
      {"type": "function_call_output", "call_id": "c", "output": "4"}],
      "instructions": "I", "max_output_tokens": 5,
      "tools": [{"type": "function", "name": "f", "parameters": {}}]})",
                                         kResponses);
  ASSERT_EQ(request.messages.size(), 4U);
  EXPECT_EQ(request.messages[0]["role"], "system");
  EXPECT_EQ(request.messages[1]["content"], "a");
  EXPECT_EQ(request.messages[2]["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(request.messages[3]["tool_call_id"], "c");
  EXPECT_EQ(request.params.max_tokens, 5);
  EXPECT_EQ(request.tools[0]["function"]["name"], "f");
}

// Truth: Anthropic's published reference of the Messages API.
TEST(GenerationRequest, ReadsAnAnthropicConversation) {
  const GenerationRequest request = read(R"({"system": [{"type": "text", "text": "S"}, {"type": "text", "text": "T"}],
      "max_tokens": 5, "stop_sequences": ["x"], "metadata": {"user_id": "u"},
      "messages": [{"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b",
      "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "c"}]},
      {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"},
      {"type": "text", "text": "d"}, {"type": "tool_use", "id": "t1", "name": "f", "input": {"k": 1}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text",
      "text": "4"}]}, {"type": "text", "text": "e"}]}],
      "tools": [{"name": "f", "description": "D", "input_schema": {"type": "object"}}],
      "tool_choice": {"type": "any", "disable_parallel_tool_use": true}})",
                                         kMessages);
  EXPECT_EQ(request.messages,
            Json::parse(R"([{"role": "system", "content": "S\nT"}, {"role": "user", "content": "a\nb\nc"},
      {"role": "assistant", "content": "d", "reasoning_content": "hm", "tool_calls": [{"id": "t1", "type": "function",
      "function": {"name": "f", "arguments": {"k": 1}}}]}, {"role": "tool", "tool_call_id": "t1", "content": "4"},
      {"role": "user", "content": "e"}])"));
  EXPECT_EQ(request.tools, Json::parse(R"([{"type": "function", "function": {"name": "f", "description": "D",
      "parameters": {"type": "object"}}}])"));
  EXPECT_EQ(request.tool_choice.kind, ToolChoice::Kind::Required);
  EXPECT_FALSE(request.parallel_tool_calls);
  EXPECT_EQ(request.params.max_tokens, 5);
  EXPECT_EQ(request.stop, std::vector<std::string>{"x"});
  EXPECT_EQ(request.user, "u");
  EXPECT_FALSE(request.continue_final_message);
  const GenerationRequest begun = read(R"({"messages": [{"role": "user", "content": "a"},
      {"role": "assistant", "content": "b"}], "output_config": {"effort": "low", "format": {"type": "json_schema",
      "schema": {"type": "object"}}}})",
                                       kMessages);
  EXPECT_TRUE(begun.continue_final_message);
  EXPECT_FALSE(begun.add_generation_prompt);
  EXPECT_EQ(begun.structured_json, R"({"type":"object"})");
}

TEST(GenerationRequest, InstructionsBeforeAllTurnsAreOneMessage) {
  const std::string turns = R"("messages": [{"role": "system", "content": "t"}, {"role": "user", "content": "a"},
      {"role": "system", "content": "u"}])",
                    system = R"("system": "s")", end = R"(, "max_tokens": 5})";
  const Json expected = Json::parse(R"([{"role": "system", "content": "s\nt"}, {"role": "user", "content": "a"},
      {"role": "system", "content": "u"}])");
  EXPECT_EQ(read("{" + turns + ", " + system + end, kMessages).messages, expected);
  EXPECT_EQ(read("{" + system + ", " + turns + end, kMessages).messages, expected);
}

TEST(GenerationRequest, TakesWhatCannotMatterHere) {
  const std::string chat = R"({"messages": [{"role": "user", "content": "x"}], )", response = R"({"input": "x", )";
  for (const char* const more : {R"("prompt_cache_options": {"mode": "explicit"}})", R"("moderation": null})"}) {
    EXPECT_NO_THROW(read(chat + more, kChat)) << more;
    EXPECT_NO_THROW(read(response + more, kResponses)) << more;
  }
  EXPECT_NO_THROW(read(response + R"("context_management": null})", kResponses));
  EXPECT_NO_THROW(read(chat + R"("diagnostics": {"previous_message_id": null}, "fallbacks": "default",
      "compaction": null})",
                       kMessages));
  expect_faults({{kChat, chat + R"("moderation": {"model": "m"}})", "moderation", "nothing is moderated"},
                 {kMessages, chat + R"("compaction": {}})", "compaction", "not summarized"}});
}

TEST(RequestFields, TheSchemaListsWhatIsRead) {
  for (const unsigned endpoint : {kCompletions, kChat, kResponses, kMessages, kEmbeddings}) {
    const Json schema =
        request_schema(endpoint, {.vocabulary_size = 1024, .max_model_len = 512, .embedding_length = 8});
    EXPECT_EQ(schema["additionalProperties"], false);
    for (const RequestField& field : request_fields()) {
      EXPECT_EQ(schema["properties"].contains(std::string(field.name)) || (field.endpoints & endpoint) == 0, true)
          << field.name;
    }
  }
}

TEST(GenerationRequest, WithoutAWishTheEnginesLimitIsTheDefault) {
  const auto wanted = [](const std::string& body, unsigned endpoint, int32_t limit) {
    return read_generation_request(parse_json_object(body), endpoint, limit).params.max_tokens;
  };
  const std::string chat = R"({"messages": [{"role": "user", "content": "a"}])", completion = R"({"prompt": "a")";
  EXPECT_EQ(wanted(chat + "}", kChat, 512), 512);
  EXPECT_EQ(wanted(chat + "}", kMessages, 512), 512);
  EXPECT_EQ(wanted(completion + "}", kCompletions, 512), 16);
  EXPECT_EQ(wanted(completion + "}", kCompletions, 12), 12);
  EXPECT_EQ(wanted(chat + R"(, "max_tokens": 600})", kChat, 512), 600);  // the engine says what becomes of it
  EXPECT_GT(wanted(chat + "}", kChat, 0), 1 << 20);
}

TEST(RequestFields, TheSchemaHasTheModelsNumbers) {
  const SchemaLimits limits{.vocabulary_size = 1000, .max_model_len = 512, .embedding_length = 8};
  const Json prompt = request_schema(kCompletions, limits)["properties"]["prompt"];
  EXPECT_EQ(prompt["anyOf"][2]["maxItems"], 128);
  EXPECT_EQ(with_limits("$PROMPT_TOKENS $LAST_TOKEN", limits), "512 999");
  EXPECT_EQ(request_schema(kEmbeddings, limits)["properties"]["dimensions"]["enum"], Json::parse("[8, null]"));
}

TEST(RequestFields, TheTokenPatternHoldsForIdsOfTheVocabularyOnly) {
  for (const int32_t size : {1, 7, 10, 11, 100, 256, 1000, 1024, 2010}) {
    const std::regex pattern(with_limits("$TOKEN_PATTERN", {.vocabulary_size = size}));
    for (int32_t id = 0; id < 3000; ++id) EXPECT_EQ(std::regex_match(std::to_string(id), pattern), id < size) << size;
    EXPECT_FALSE(std::regex_match("", pattern));
    EXPECT_FALSE(std::regex_match("-1", pattern));
  }
}

}  // namespace
}  // namespace inflight::server
