// SPDX-License-Identifier: Apache-2.0
// Answers as OpenAI's clients read them; function calls out of text, cut at every place.
#include "server/answer_format.h"

#include <gtest/gtest.h>

#include "call_cases.h"
#include "server/tool_call_parser.h"

namespace inflight::server {
namespace {

const Json kTools = Json::parse(
    R"([{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "g"}}])");

// The JSON of every "data:" line but [DONE].
std::vector<Json> events_of(const std::string& stream) {
  std::vector<Json> events;
  size_t at = 0;
  while ((at = stream.find("data: ", at)) != std::string::npos) {
    const size_t end = stream.find("\n\n", at);
    const std::string line = stream.substr(at + 6, end - at - 6);
    if (line != "[DONE]") events.push_back(Json::parse(line));
    at = end;
  }
  return events;
}

TEST(ToolCallParser, FindsCallsHoweverTheTextIsCut) {
  const AnswerCase cases[] = {
      {"just text", "just text", {}},
      {R"(<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>)", "", {R"(f{"a": 1})"}},
      {"Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", "
       "\"arguments\": {}}\n</tool_call>",
       "Let me see.\n",
       {"f{}", "g{}"}},
      {R"({"name": "g", "parameters": {"a": [1, 2]}})", "", {R"(g{"a": [1, 2]})"}},
      {R"([TOOL_CALLS][{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}])", "", {"f{}", "g{}"}},
      {R"([TOOL_CALLS] [{"arguments": {"x": "}]\"{"}, "id": "123", "name": "f"}])", "", {R"(f{"x": "}]\"{"})"}},
      {R"(<|python_tag|>{"name": "f", "parameters": {}}; {"name": "g"})", "", {"f{}", "g{}"}},
      {R"({"name": "f", "arguments": "{\"a\": 1}"})", "", {R"(f{"a": 1})"}},
      {R"({"type": "function", "id": "1", "name": "f", "x": [2], "parameters": {}})", "", {"f{}"}},
      {R"([{"name": "f", "arguments": null}] and more)", "and more", {"fnull"}},
      {R"({"name": "f", "arguments": {"a": "cut)", "", {R"(f{"a": "cut)"}},
      {R"({"arguments": {"a": "cut)", R"({"arguments": {"a": "cut)", {}},
      {R"([{"name": "f", "arguments": {}}, {"name": "h", "arguments": {}}])",
       R"({"name": "h", "arguments": {}}])",
       {"f{}"}},
      {R"({"name": "unknown", "parameters": {}})", R"({"name": "unknown", "parameters": {}})", {}},
      {R"({"a": 1} and more)", R"({"a": 1} and more)", {}},
      {"<tool_call>not json</tool_call> x", "<tool_call>not json</tool_call> x", {}},
      {"a <tool_ca", "a <tool_ca", {}},
      {"<tool_call>{\"name\": \"f\", \"arguments\": {}}", "", {"f{}"}},  // the end tag is missing
      {"<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_c", "", {"f{}"}},
      {"<tool_call><tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", "<tool_call>", {"f{}"}},
      {R"(<own>[{"name": "f", "arguments": {}}]</own> text)", "text", {"f{}"}},  // the model's own marks
      {"<own> <ow", "<own> <ow", {}},
      {"[1, 2]", "[1, 2]", {}},
      {"", "", {}},
  };
  for (const AnswerCase& each : cases) expect_calls_of(each, kTools, {"<own>", "</own>"});
}

TEST(ToolCallParser, FindsCallsWhoseNamesArePlainText) {
  const CallMarks unended{
      .begin = "[TOOL_CALLS]", .open = {""}, .middle = {"[ID]", "[ARGS]"}, .separator = {"[TOOL_CALLS]"}};
  for (const AnswerCase& each : {
           AnswerCase{R"(Hm.[TOOL_CALLS]f[ID]aB3[ARGS]{"a": "}{"})", "Hm.", {R"(f{"a": "}{"})"}},
           {"[TOOL_CALLS]f[ID]1[ARGS]{}[TOOL_CALLS]g[ID]2[ARGS] {} and more", "and more", {"f{}", "g{}"}},
           {"[TOOL_CALLS]f[ID]1[ARGS]{}[TOOL_CALLS]h[ID]2[ARGS]{}", "[TOOL_CALLS]h[ID]2[ARGS]{}", {"f{}"}},
           {"[TOOL_CALLS]f[ID][ARGS]{}", "[TOOL_CALLS]f[ID][ARGS]{}", {}},
           {"[TOOL_CALLS]f[ID]1[ARGS]1", "[TOOL_CALLS]f[ID]1[ARGS]1", {}},
           {"[TOOL_CALLS]f[ID]1[ARGS]{\"a", "", {"f{\"a"}},
           {"[TOOL_CALLS]f[ID]1", "[TOOL_CALLS]f[ID]1", {}},
           {"[TOOL_CALLS]f[ID]1[ARGS]{}[TOOL", "[TOOL", {"f{}"}},  // half a call is text
           {R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)", "", {"f{}"}},
       }) {
    expect_calls_of(each, kTools, unended);
  }
  const CallMarks ended{
      .begin = "<call>", .end = "</call>", .open = {"#", "="}, .middle = {">"}, .separator = {"</call>;#", "="}};
  for (const AnswerCase& each : {
           AnswerCase{"<call>#0=f>{}</call> text", "text", {"f{}"}},
           {"<call>#0=f>{}</call>;#1=g>{}</call>", "", {"f{}", "g{}"}},
           {"<call>#0=f>{}</call>;", ";", {"f{}"}},
           {"<call>#0=f>{}</ca", "", {"f{}"}},
           {"<call>#0=f>{}no", "no", {"f{}"}},
           {"<call>f>{}</call>", "<call>f>{}</call>", {}},
           {"<call>#0=f>{}</call><call>#1=g>{}</call>", "", {"f{}", "g{}"}},
       }) {
    expect_calls_of(each, kTools, ended);
  }
}

// What can only be calls shows no half of one.
TEST(ToolCallParser, HalfACallThatMustBeOneIsNoText) {
  for (const std::string text :
       {R"([{"name": "f", "arguments": {}}, {"name": "g", "arguments": {"a)",
        R"(<own>[{"name": "f", "arguments": {"a": 1}}]</own>)", R"(<tool_call>{"name": "f",)"}) {
    for (size_t length = 0; length <= text.size(); ++length) {
      ToolCallParser parser(kTools, {"<own>", "</own>"}, true);
      std::string shown;
      for (size_t i = 0; i < length; ++i) shown += parser.push(text.substr(i, 1)).text();
      shown += parser.finish().text();
      EXPECT_EQ(shown, "") << text.substr(0, length);
    }
  }
}

TEST(ToolCallParser, TellsTheNameFirstAndArgumentsAsTheyCome) {
  ToolCallParser parser(kTools);
  const std::string text = R"(<tool_call>{"name": "f", "arguments": {"city": "Paris"}}</tool_call>)";
  const size_t known = text.find("{\"city");  // the arguments begin
  for (size_t i = 0; i < text.size(); ++i) {
    const auto found = parser.push(text.substr(i, 1));
    EXPECT_EQ(found.text(), "");
    const bool inside = i >= known && i < text.find("}}</");
    if (inside) {
      ASSERT_EQ(found.parts.size(), 1U) << i;
      EXPECT_EQ(found.parts[0].call->name, i == known ? "f" : "");
      EXPECT_EQ(found.parts[0].call->arguments, text.substr(i, 1));
    } else if (i < known) {
      EXPECT_TRUE(found.parts.empty()) << i;
    }
  }
}

// With a schema for answers beside the functions, most answers are objects that are no calls.
TEST(ToolCallParser, AnObjectThatIsNoCallIsShownFromItsFirstKeyOn) {
  ToolCallParser parser(kTools);
  EXPECT_EQ(parser.push(R"({"id": 7, "answe)").text(), "");
  EXPECT_EQ(parser.push(R"(r": "a long )").text(), R"({"id": 7, "answer": "a long )");
  EXPECT_EQ(parser.push("story").text(), "story");
}

TEST(ToolCallParser, WithoutToolsEverythingIsText) {
  ToolCallParser parser(Json::array());
  EXPECT_EQ(parser.push("<tool_call>{}").text(), "<tool_call>{}");
}

using MakeFormat = std::unique_ptr<AnswerFormat> (*)(const GenerationRequest&, AnswerInfo);

constexpr std::string_view kCallBetweenTexts =
    R"(one <tool_call>{"name": "f", "arguments": {"a": "bc"}}</tool_call> two)";

// It as one answer, and as events.
struct Answers {
  Json whole;
  std::vector<Json> events;
};

// step: characters that come at a time.
Answers call_between_texts(MakeFormat make, size_t step) {
  GenerationRequest request;
  request.tools = kTools;
  const auto whole = make(request, {.id = "1", .created_s = 5, .model = "m"});
  const auto streamed = make(request, {.id = "1", .created_s = 5, .model = "m"});
  std::string out;
  for (size_t i = 0; i < kCallBetweenTexts.size(); i += step) {
    const auto finish = i + step < kCallBetweenTexts.size() ? INFLIGHT_FINISH_NONE : INFLIGHT_FINISH_STOP;
    const std::string text(kCallBetweenTexts.substr(i, step));
    whole->collect({.text = text, .finish_reason = finish});
    streamed->add({.text = text, .finish_reason = finish}, out);
  }
  streamed->end({}, out);
  return {Json::parse(whole->whole({})), events_of(out)};
}

// However the tokens are put together on their way.
TEST(MessagesFormat, BlocksStandInTheOrderInWhichTheyWereWritten) {
  for (size_t step = 1; step <= kCallBetweenTexts.size(); ++step) {
    const auto [whole, events] = call_between_texts(messages_format, step);
    const Json& content = whole["content"];
    ASSERT_EQ(content.size(), 3U) << content;
    EXPECT_EQ(content[0]["text"], "one ");
    EXPECT_EQ(content[1]["input"], Json::parse(R"({"a": "bc"})"));
    EXPECT_EQ(content[2]["text"], "two");
    std::vector<std::string> blocks;
    for (const Json& event : events) {
      if (event["type"] == "content_block_start") blocks.emplace_back();
      if (event["type"] != "content_block_delta") continue;
      ASSERT_EQ(event["index"], blocks.size() - 1);
      blocks.back() += event["delta"].value("text", "") + event["delta"].value("partial_json", "");
    }
    EXPECT_EQ(blocks, (std::vector<std::string>{"one ", R"({"a": "bc"})", "two"})) << step;
  }
}

TEST(ResponseFormat, ItemsStandInTheOrderInWhichTheyWereWritten) {
  for (size_t step = 1; step <= kCallBetweenTexts.size(); ++step) {
    const auto [whole, events] = call_between_texts(response_format, step);
    const Json& output = whole["output"];
    ASSERT_EQ(output.size(), 3U) << output;
    EXPECT_EQ(output[0]["content"][0]["text"], "one ");
    EXPECT_EQ(output[1]["arguments"], R"({"a": "bc"})");
    EXPECT_EQ(output[2]["content"][0]["text"], "two");
    EXPECT_NE(output[0]["id"], output[2]["id"]);
    size_t added = 0, done = 0;
    for (const Json& event : events) {
      if (event["type"] == "response.output_item.added") {
        EXPECT_EQ(event["output_index"], added++);
        EXPECT_EQ(added, done + 1) << "an item begins while another is open";
      }
      if (event["type"] != "response.output_item.done") continue;
      EXPECT_EQ(event["item"], output[done++]);
    }
    EXPECT_EQ(done, 3U);
  }
}

TEST(ChatFormat, StreamsRoleContentReasonAndUsage) {
  GenerationRequest request;
  request.include_usage = true;
  const auto format = chat_format(request, {.id = "1", .created_s = 5, .model = "m"});
  std::string out;
  format->begin({}, out);
  format->add({.text = "Hello"}, out);
  format->add({.text = " you", .finish_reason = INFLIGHT_FINISH_STOP}, out);
  format->end({.prompt_tokens = 3, .cached_tokens = 1, .output_tokens = 2}, out);
  const std::vector<Json> events = events_of(out);
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events[0]["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(events[1]["choices"][0]["delta"]["content"], "Hello");
  EXPECT_EQ(events[1]["object"], "chat.completion.chunk");
  EXPECT_EQ(events[1]["id"], "chatcmpl-1");
  EXPECT_EQ(events[3]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events[4]["choices"], Json::array());
  EXPECT_EQ(events[4]["usage"]["total_tokens"], 5);
  EXPECT_EQ(events[4]["usage"]["prompt_tokens_details"]["cached_tokens"], 1);
  EXPECT_TRUE(out.ends_with("data: [DONE]\n\n"));
}

TEST(ChatFormat, GivesCallsWithTheirOwnFinishReason) {
  GenerationRequest request;
  request.tools = kTools;
  const std::string text =
      R"(<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call><tool_call>{"name": "g", "arguments": {}}</tool_call>)";
  for (const bool parallel : {true, false}) {
    request.parallel_tool_calls = parallel;
    const auto whole = chat_format(request, {.id = "1", .created_s = 5, .model = "m"});
    whole->collect({.text = text, .finish_reason = INFLIGHT_FINISH_STOP});
    const Json answer = Json::parse(whole->whole({}));
    const Json& message = answer["choices"][0]["message"];
    EXPECT_EQ(answer["choices"][0]["finish_reason"], "tool_calls");
    EXPECT_TRUE(message["content"].is_null());
    ASSERT_EQ(message["tool_calls"].size(), parallel ? 2U : 1U);
    EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], "{\"a\": 1}");

    const auto streamed = chat_format(request, {.id = "1", .created_s = 5, .model = "m"});
    std::string out;
    streamed->add({.text = text, .finish_reason = INFLIGHT_FINISH_STOP}, out);
    const std::vector<Json> events = events_of(out);
    ASSERT_EQ(events.size(), parallel ? 3U : 2U);
    EXPECT_EQ(events[0]["choices"][0]["delta"]["tool_calls"][0]["index"], 0);
    EXPECT_EQ(events[0]["choices"][0]["delta"]["tool_calls"][0]["id"], message["tool_calls"][0]["id"]);
    EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "tool_calls");
  }
}

struct Cut {
  std::string text, reason;  // OpenAI's finish reason
  size_t calls;              // that are told
};
const std::vector<Cut> kStopped = {
    {R"([{"name": "f", "arguments": {")", "stop", 1},
    {R"([{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {)", "stop", 2},
    {R"([{"name": "f", "arguments": {"a": 1}}, {"name": ")", "tool_calls", 1},
    {R"([{"name": "f", "arguments": {"a": 1}})", "tool_calls", 1},
    {R"([{"na)", "stop", 0},
};

TEST(ChatFormat, ACallThatAStopTextCutsIsNotComplete) {
  GenerationRequest request;
  request.tools = kTools;
  request.tool_choice.kind = ToolChoice::Kind::Required;
  for (const auto& [text, reason, calls] : kStopped) {
    for (const auto finish : {INFLIGHT_FINISH_STOP, INFLIGHT_FINISH_LENGTH}) {
      const Json stop = finish == INFLIGHT_FINISH_STOP ? Json("city") : Json();
      const auto whole = chat_format(request, {.id = "1", .created_s = 5, .model = "m"});
      whole->collect({.text = text, .finish_reason = finish, .stop_reason = stop});
      const Json choice = Json::parse(whole->whole({}))["choices"][0];
      const std::string wanted = finish == INFLIGHT_FINISH_STOP ? reason : "length";
      EXPECT_EQ(choice["finish_reason"], wanted) << text;
      EXPECT_EQ(choice["stop_reason"], stop);
      EXPECT_TRUE(choice["message"]["content"].is_null()) << choice;
      EXPECT_EQ(choice["message"].value("tool_calls", Json::array()).size(), calls) << text;

      const auto streamed = chat_format(request, {.id = "1", .created_s = 5, .model = "m"});
      std::string head, out;
      streamed->begin({}, head);  // as of the whole answer
      EXPECT_TRUE(events_of(head)[0]["choices"][0]["delta"]["content"].is_null()) << head;
      for (const char byte : text) streamed->add({.text = std::string(1, byte)}, out);
      streamed->add({.finish_reason = finish, .stop_reason = stop}, out);
      const std::vector<Json> events = events_of(out);
      EXPECT_EQ(events.back()["choices"][0]["finish_reason"], wanted) << text;
      EXPECT_EQ(events.back()["choices"][0]["stop_reason"], stop);
      for (const Json& event : events) EXPECT_FALSE(event["choices"][0]["delta"].contains("content")) << event;
    }
  }
  request.parallel_tool_calls = false;  // the second one is not told of, the first one is whole
  const auto one = chat_format(request, {.id = "1", .created_s = 5, .model = "m"});
  one->collect({.text = kStopped[1].text, .finish_reason = INFLIGHT_FINISH_STOP, .stop_reason = "x"});
  EXPECT_EQ(Json::parse(one->whole({}))["choices"][0]["finish_reason"], "tool_calls");
}

TEST(MessagesFormat, GivesNoInputForHalfACall) {
  GenerationRequest request;
  request.tools = kTools;
  request.tool_choice.kind = ToolChoice::Kind::Required;
  for (const auto& [text, reason, calls] : kStopped) {
    const auto format = messages_format(request, {.id = "1", .created_s = 5, .model = "m"});
    format->collect({.text = text, .finish_reason = INFLIGHT_FINISH_STOP, .stop_reason = "city"});
    const Json message = Json::parse(format->whole({}));
    EXPECT_EQ(message["stop_reason"], "stop_sequence");
    EXPECT_EQ(message["content"].size(), calls - (calls > 0 && reason == "stop" ? 1 : 0)) << message;
    for (const Json& block : message["content"]) EXPECT_EQ(block["input"], Json::parse(R"({"a": 1})"));

    const auto streamed = messages_format(request, {.id = "1", .created_s = 5, .model = "m"});
    std::string out;
    streamed->add({.text = text, .finish_reason = INFLIGHT_FINISH_STOP}, out);  // the model's own end
    streamed->end({}, out);
    const std::vector<Json> events = events_of(out);
    EXPECT_EQ(events[events.size() - 2]["delta"]["stop_reason"], reason == "stop" ? "end_turn" : "tool_use") << text;
    EXPECT_EQ(out.find("text_delta"), std::string::npos);
  }
}

TEST(ResponseFormat, TheCutItemIsIncomplete) {
  GenerationRequest request;
  request.tools = kTools;
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)";
  const struct {
    std::string text;
    bool forced;
    std::vector<std::string> items;  // their statuses
  } cases[] = {{"Hi", false, {"incomplete"}},
               {"", false, {"incomplete"}},
               {"Hi" + call, false, {"completed", "completed"}},
               {R"([{"name": "f", "arguments": {)", true, {"incomplete"}},
               {R"([{"name": ")", true, {}}};
  for (const auto& [text, forced, items] : cases) {
    request.tool_choice.kind = forced ? ToolChoice::Kind::Required : ToolChoice::Kind::Auto;
    const auto whole = response_format(request, {.id = "1", .created_s = 5, .model = "m"});
    whole->collect({.text = text, .finish_reason = INFLIGHT_FINISH_LENGTH});
    const Json answer = Json::parse(whole->whole({}));
    EXPECT_EQ(answer["status"], "incomplete");
    std::vector<std::string> statuses;
    for (const Json& item : answer["output"]) statuses.push_back(item["status"]);
    EXPECT_EQ(statuses, items) << text;
    const auto streamed = response_format(request, {.id = "1", .created_s = 5, .model = "m"});
    std::string out;
    streamed->add({.text = text, .finish_reason = INFLIGHT_FINISH_LENGTH}, out);
    streamed->end({}, out);
    EXPECT_EQ(events_of(out).back()["response"], answer) << text;
  }
}

TEST(ResponseFormat, RepeatsWhatWasAsked) {
  GenerationRequest request;
  request.echoed = Json::parse(R"({"metadata": {"a": "b"}, "reasoning": {"effort": "high"}})");
  const auto format = response_format(request, {.id = "1", .created_s = 5, .model = "m"});
  format->collect({.text = "Hi", .finish_reason = INFLIGHT_FINISH_STOP});
  const Json answer = Json::parse(format->whole({}));
  EXPECT_EQ(answer["metadata"], request.echoed["metadata"]);
  EXPECT_EQ(answer["reasoning"], Json::parse(R"({"effort": "high", "summary": null})"));
  EXPECT_EQ(answer["truncation"], "disabled");
}

// A model that opens brackets without end.
TEST(MessagesFormat, DeepArgumentsAreNone) {
  GenerationRequest request;
  request.tools = kTools;
  const auto format = messages_format(request, {.id = "1", .created_s = 5, .model = "m"});
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  format->collect({.text = R"(<tool_call>{"name": "f", "arguments": {"a": )" + deep + "}}</tool_call>",
                   .finish_reason = INFLIGHT_FINISH_STOP});
  EXPECT_EQ(Json::parse(format->whole({}))["content"][0]["input"], Json::object());
}

TEST(ChatFormat, GivesLogprobsWithBytes) {
  GenerationRequest request;
  request.logprobs = true;
  const auto format = chat_format(request, {.id = "1", .created_s = 5, .model = "m"});
  format->collect({.text = "é",
                   .tokens = {{.id = 4, .text = "é", .logprob = -0.5F, .top = {{.text = "\xC3", .logprob = -0.5F}}}},
                   .finish_reason = INFLIGHT_FINISH_LENGTH});
  const Json answer = Json::parse(format->whole({}));
  const Json& token = answer["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(token["token"], "é");
  EXPECT_EQ(token["bytes"], Json::array({0xC3, 0xA9}));
  EXPECT_EQ(token["logprob"], -0.5);
  EXPECT_EQ(token["top_logprobs"][0]["token"], "\uFFFD");  // half a character
  EXPECT_EQ(token["top_logprobs"][0]["bytes"], Json::array({0xC3}));
}

TEST(CompletionFormat, EchoesAndCountsOffsets) {
  GenerationRequest request;
  request.logprobs = true;
  request.echo = true;
  const auto format =
      completion_format(request, {.id = "1", .created_s = 5, .model = "m", .choice_count = 2, .echoes = {"A:", "B:"}});
  request.params.n = 1;
  request.top_logprobs = 1;
  request.prompt_logprobs = 2;
  format->collect({.choice = 1, .prompt = {{.id = 3, .text = "é"}}});
  format->collect(
      {.choice = 1,
       .text = "xy",
       .tokens = {{.text = "x", .logprob = -1, .top = {{.text = "\xE2\x80", .logprob = -0.5F}}},
                  {.text = "y", .logprob = -2}},
       .prompt = {{.id = 4,
                   .text = ":",
                   .logprob = -0.5F,
                   .top = {{.id = 9, .text = "!", .logprob = -0.25F}, {.id = 4, .text = ":", .logprob = -0.5F}}}},
       .finish_reason = INFLIGHT_FINISH_LENGTH});
  format->collect({.choice = 0,
                   .text = "z",
                   .tokens = {{.text = "z", .logprob = -3}},
                   .finish_reason = INFLIGHT_FINISH_STOP,
                   .stop_reason = "END"});
  const Json answer = Json::parse(format->whole({.prompt_tokens = 1, .output_tokens = 3}));
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["choices"][0]["text"], "A:z");
  EXPECT_EQ(answer["choices"][1]["text"], "B:xy");
  const Json& logprobs = answer["choices"][1]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json::array({"é", ":", "x", "y"}));
  EXPECT_EQ(logprobs["token_logprobs"], Json::array({Json(), -0.5, -1, -2}));
  EXPECT_EQ(logprobs["text_offset"], Json::array({0, 1, 2, 3}));  // characters, not bytes
  EXPECT_EQ(logprobs["top_logprobs"], Json::parse(R"([null, {"!": -0.25, ":": -0.5},
                                                      {"bytes:\\xe2\\x80": -0.5, "x": -1.0}, {"y": -2.0}])"));
  EXPECT_EQ(answer["choices"][1]["prompt_logprobs"],
            Json::parse(R"([null, {"9": {"logprob": -0.25, "rank": 1, "decoded_token": "!"},
                                   "4": {"logprob": -0.5, "rank": 2, "decoded_token": ":"}}])"));
  EXPECT_EQ(answer["choices"][0]["stop_reason"], "END");
  EXPECT_TRUE(answer["choices"][1]["stop_reason"].is_null());
  EXPECT_EQ(answer["choices"][1]["finish_reason"], "length");
}

TEST(ResponseFormat, StreamsTypedEventsInOrder) {
  GenerationRequest request;
  request.tools = kTools;
  const auto format = response_format(request, {.id = "1", .created_s = 5, .model = "m"});
  std::string out;
  format->begin({}, out);
  format->add({.text = "Hi"}, out);
  format->add(
      {.text = R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)", .finish_reason = INFLIGHT_FINISH_STOP}, out);
  format->end({.prompt_tokens = 1, .output_tokens = 2}, out);
  std::vector<std::string> types;
  const std::vector<Json> events = events_of(out);
  for (size_t i = 0; i < events.size(); ++i) {
    types.push_back(events[i]["type"]);
    EXPECT_EQ(events[i]["sequence_number"], i);
  }
  EXPECT_EQ(types,
            (std::vector<std::string>{
                "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
                "response.output_text.delta", "response.output_text.done", "response.content_part.done",
                "response.output_item.done", "response.output_item.added", "response.function_call_arguments.delta",
                "response.function_call_arguments.done", "response.output_item.done", "response.completed"}));
  const Json& response = events.back()["response"];
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "Hi");
  EXPECT_EQ(response["output"][1]["name"], "f");
  EXPECT_EQ(response["usage"]["total_tokens"], 3);

  const auto whole = response_format(request, {.id = "1", .created_s = 5, .model = "m"});
  whole->collect({.text = "Hi"});
  whole->collect(
      {.text = R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)", .finish_reason = INFLIGHT_FINISH_STOP});
  EXPECT_EQ(Json::parse(whole->whole({.prompt_tokens = 1, .output_tokens = 2})), response);
}

TEST(ResponseFormat, AnErrorIsTheNextEvent) {
  const GenerationRequest request;
  const Json error = Json::parse(R"({"type":"error","error":{"message":"m","type":"t","param":null,"code":"c"}})");
  const auto format = response_format(request, {.id = "1", .created_s = 5, .model = "m"});
  std::string out;
  format->begin({}, out);
  format->fail(error, out);
  EXPECT_NE(out.find("event: error\n"), std::string::npos);
  const Json event = events_of(out).back();
  Json expected = error;
  expected.update(Json{{"sequence_number", 2}, {"message", "m"}, {"param", Json()}, {"code", "c"}});
  EXPECT_EQ(nlohmann::json(event), nlohmann::json(expected));  // in whatever order
}

}  // namespace
}  // namespace inflight::server
