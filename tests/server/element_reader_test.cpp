// SPDX-License-Identifier: Apache-2.0
// Arguments that are elements: what becomes of each value by the schema, and calls in answers cut at every place. The
// wanted JSON is written by hand, by the rules of OpenAI's `arguments`.
#include "server/element_reader.h"

#include <gtest/gtest.h>

#include "call_cases.h"
#include "server/tool_call_parser.h"

namespace inflight::server {
namespace {

const Json kParameters = Json::parse(R"({
  "properties": {
    "text": {"type": "string"}, "count": {"type": "integer"}, "warm": {"type": "boolean"}, "list": {"type": "array"},
    "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "either": {"type": ["string", "number"]},
    "color": {"$ref": "#/$defs/color"}, "size": {"enum": [1, 2]}, "code": {"pattern": "^[0-9]+$"}, "any": {},
    "day": {"allOf": [{"type": ["string", "number"]}, {"type": ["null", "string"]}]}, "loop": {"$ref": "#/$defs/loop"},
    "lost": {"$ref": "#/$defs/none"}, "one": {"const": "1"}},
  "$defs": {"color": {"enum": ["red", "1"]}, "loop": {"$ref": "#/$defs/loop"}},
  "additionalProperties": {"type": "string"}})");

// As Qwen3-Coder writes calls; the mark around them is the parser's.
const ElementMarks kQwen{
    .open = "<parameter=", .string_middle = ">\n", .middle = ">\n", .close = "\n</parameter>\n", .end = "</function>"};
const CallMarks kQwenCalls{.begin = "<tool_call>",
                           .end = "\n</tool_call>",
                           .open = {"\n<function="},
                           .middle = {">\n"},
                           .separator = {"\n</tool_call>\n<tool_call>\n<function="},
                           .elements = kQwen};

// As GLM 4.7 does.
const CallMarks kGlmCalls{.begin = "<tool_call>",
                          .open = {""},
                          .middle = {""},
                          .separator = {"<tool_call>"},
                          .elements = ElementMarks{.open = "<arg_key>",
                                                   .string_middle = "</arg_key><arg_value>",
                                                   .middle = "</arg_key><arg_value>",
                                                   .close = "</arg_value>",
                                                   .end = "</tool_call>"}};

ParameterKinds kinds_of(const Json& parameters) {
  int64_t steps = kKindStepsMax;
  return parameter_kinds(parameters, steps);
}

// The object that `elements` are, without "{"; nothing: they are none, or have not ended.
std::optional<std::string> read_all(const ElementMarks& marks, const std::string& elements) {
  const ParameterKinds kinds = kinds_of(kParameters);
  ElementReader reader(marks, kinds);
  std::string json;
  for (size_t i = 0; i < elements.size(); ++i) {
    const auto status = reader.read(elements[i], json);
    if (status == ElementReader::Status::NoElement) return std::nullopt;
    if (status == ElementReader::Status::Ended) return i + 1 == elements.size() ? std::optional(json) : std::nullopt;
  }
  return std::nullopt;
}

std::string element(const std::string& name, const std::string& value) {
  return "<parameter=" + name + ">\n" + value + "\n</parameter>\n";
}

TEST(ElementReader, MakesOfValuesWhatTheSchemaSays) {
  const struct {
    std::string name, value, json;
  } cases[] = {
      {"text", "Paris", R"("Paris")"},
      {"text", "5", R"("5")"},
      {"text", "", R"("")"},
      {"text", "\n \"a\\b\"\tä\n\n", R"("\n \"a\\b\"\u0009ä\n\n")"},
      {"text", "</param </parameter", R"("</param </parameter")"},
      {"count", "5", "5"},
      {"count", " 5 ", "5"},
      {"count", "five", R"("five")"},
      {"count", "\"5\"", R"("5")"},
      {"warm", "true", "true"},
      {"warm", "True", "true"},
      {"warm", "None", "null"},
      {"list", "[\"a\",\n {\"b\": 1}]", "[\"a\",\n {\"b\": 1}]"},
      {"list", "[1, 2", R"("[1, 2")"},
      {"maybe", "null", "null"},
      {"maybe", "None", "null"},
      {"maybe", "None of them", R"("None of them")"},
      {"maybe", "nullable", R"("nullable")"},
      {"maybe", "5", R"("5")"},
      {"maybe", "", R"("")"},
      {"either", "5", "5"},
      {"either", "true", R"("true")"},
      {"either", "True", R"("True")"},
      {"either", "five", R"("five")"},
      {"color", "1", R"("1")"},
      {"size", "1", "1"},
      {"code", "0123", R"("0123")"},
      {"one", "1", R"("1")"},
      {"any", "{\"a\": [1]}", "{\"a\": [1]}"},
      {"any", "plain", R"("plain")"},
      {"any", "True", "true"},
      {"day", "7", R"("7")"},
      {"loop", "7", "7"},
      {"lost", "7", "7"},
      {"other", "7", R"("7")"},
      {"other \"name\"", "7", R"("7")"},
  };
  for (const auto& [name, value, json] : cases) {
    const std::string found = read_all(kQwen, element(name, value) + "</function>").value_or("none");
    EXPECT_EQ(found, Json(name).dump() + ": " + json + "}") << name << "=" << value;
    EXPECT_FALSE(Json::parse("{" + found, nullptr, false).is_discarded()) << found;
  }
}

TEST(ElementReader, ElementsFollowEachOther) {
  EXPECT_EQ(read_all(kQwen, "</function>"), "}");
  EXPECT_EQ(read_all(kQwen, element("count", "1") + element("text", "a") + "\n</function>"),
            R"("count": 1, "text": "a"})");
  // Values without the blanks that the model is trained to write.
  EXPECT_EQ(read_all(kQwen, "<parameter=text>a</parameter><parameter=maybe>null</parameter></function>"),
            R"("text": "a", "maybe": null})");
  const ElementMarks tight{
      .open = "<p name=\"", .string_middle = "\">", .middle = "\">", .close = "</p>", .end = "</call>"};
  EXPECT_EQ(read_all(tight, "<p name=\"text\">\na\n</p></call>"), R"("text": "\na\n"})");
  for (const std::string bad : {"text</function>", "<param>", "<parameter=text>\na", "<parameter=a\n</parameter>"}) {
    EXPECT_EQ(read_all(kQwen, bad), std::nullopt) << bad;
  }
  EXPECT_EQ(read_all(kQwen, "<parameter=" + std::string(300, 'x') + ">\n1\n</parameter>\n</function>"), std::nullopt);
}

// Where the schema allows what they say.
TEST(ElementReader, ElementsMaySayWhatIsAString) {
  const ElementMarks telling{.open = "<p name=\"",
                             .string_middle = "\" string=\"true\">",
                             .middle = "\" string=\"false\">\n",
                             .close = "</p>\n",
                             .end = "</call>"};
  const struct {
    std::string name, said, json;
  } cases[] = {
      {"text", "true\">5", R"("5")"},
      {"text", "true\">\n5\n", R"("\n5\n")"},
      {"text", "false\">\n5", R"("5")"},
      {"count", "false\">\n5", "5"},
      {"count", "true\">5", "5"},
      {"count", "false\">5", "5"},
      {"maybe", "true\">null", R"("null")"},
      {"maybe", "false\">\nnull", "null"},
      {"either", "true\">5", R"("5")"},
      {"either", "false\">\n5", "5"},
      {"any", "true\">[1]", R"("[1]")"},
      {"any", "false\">\n[1]", "[1]"},
      {"any", "false\">\nplain", R"("plain")"},
      {"color", "false\">\n1", R"("1")"},
  };
  for (const auto& [name, said, json] : cases) {
    const std::string elements = "<p name=\"" + name + "\" string=\"" + said + "</p>\n</call>";
    EXPECT_EQ(read_all(telling, elements).value_or("none"), "\"" + name + "\": " + json + "}") << elements;
  }
  const ElementMarks bare{
      .open = "<p=", .string_middle = " string>", .middle = " other>", .close = "</>", .end = "</call>"};
  EXPECT_EQ(read_all(bare, "<p=any string>1</><p=count other>1</></call>"), R"("any": "1", "count": 1})");
  EXPECT_EQ(read_all(telling, "<p name=\"text\" string=\"maybe\">5</p></call>"), std::nullopt);
  EXPECT_EQ(read_all(telling, "<p name=\"" + std::string(300, 'x') + "\" string=\"true\">5</p></call>"), std::nullopt);
}

TEST(ElementReader, StringsAreToldAsTheyCome) {
  for (const std::string name : {"text", "maybe"}) {
    const ParameterKinds kinds = kinds_of(kParameters);
    ElementReader reader(kQwen, kinds);
    std::string json;
    for (const char byte : "<parameter=" + name + ">\nA \"long\" sto") static_cast<void>(reader.read(byte, json));
    EXPECT_EQ(json, "\"" + name + "\": \"A \\\"long\\\" sto");
    for (const char byte : std::string("ry\n</para")) static_cast<void>(reader.read(byte, json));
    EXPECT_EQ(json, "\"" + name + "\": \"A \\\"long\\\" story");  // what may end it is held back
  }
}

// Schemas of a few bytes may ask for 20^16 looks.
TEST(ElementReader, LooksAtSchemasWithinBounds) {
  Json parameters = Json::parse(R"({"properties": {"a": {"type": "string"}, "b": {"$ref": "#/$defs/d"}}})");
  for (int i = 0; i < 20; ++i) parameters["$defs"]["d"]["anyOf"].push_back(Json{{"$ref", "#/$defs/d"}});
  int64_t steps = kKindStepsMax;
  const ParameterKinds kinds = parameter_kinds(parameters, steps);
  EXPECT_EQ(kinds.declared.at("a"), kStringKind);
  EXPECT_EQ(kinds.declared.at("b"), kAnyKind);
  EXPECT_LE(steps, 0);
  EXPECT_GT(steps, -2 * kKindStepsMax);
}

const Json kCallable = Json::parse(R"([{"function": {"name": "f"}}, {"function": {"name": "ff"}}])");

Json callable_with_parameters() {
  Json tools = kCallable;
  tools[0]["function"]["parameters"] = kParameters;
  return tools;
}

TEST(ToolCallParser, FindsCallsWhoseArgumentsAreElements) {
  const std::string f =
      "<tool_call>\n<function=f>\n" + element("text", "a</b>") + element("count", "1") + "</function>\n</tool_call>";
  const std::string called = R"(f{"text": "a</b>", "count": 1})";
  const AnswerCase cases[] = {
      {"Let me see.\n\n" + f, "Let me see.\n\n", {called}},
      {f + "\n<tool_call>\n<function=ff>\n</function>\n</tool_call>", "", {called, "ff{}"}},
      {f + "\n\n" + f + " text", "text", {called, called}},
      {"<tool_call>\n<function=ff>\n" + element("x", "[1]") + "</function>", "", {R"(ff{"x": [1]})"}},
      {"<tool_call>\n<function=g>\n</function>\n</tool_call>",
       "<tool_call>\n<function=g>\n</function>\n</tool_call>",
       {}},
      {"<tool_call>\n<function=f>\n<parameter=text>\nhalf of a", "", {R"(f{"text": "half of a)"}},
      {"<tool_call>\n<function=f>\n<parameter=count>\n12", "", {R"(f{"count": )"}},
      {"<tool_call>\n<func", "<tool_call>\n<func", {}},
      {"<tool_call>\n{\"name\": \"f\"}", "<tool_call>\n{\"name\": \"f\"}", {}},  // not this model's form
  };
  for (const AnswerCase& each : cases) expect_calls_of(each, callable_with_parameters(), kQwenCalls);
}

// Where no mark stands behind names, of which one begins another.
TEST(ToolCallParser, FindsNamesThatEndWhereElementsBegin) {
  const std::string f =
      "<tool_call>f<arg_key>text</arg_key><arg_value>a\nb</arg_value><arg_key>count</arg_key>"
      "<arg_value>1</arg_value></tool_call>";
  const std::string called = R"(f{"text": "a\nb", "count": 1})";
  const AnswerCase cases[] = {
      {"Let me see." + f, "Let me see.", {called}},
      {"<tool_call>ff</tool_call>" + f, "", {"ff{}", called}},
      {"<tool_call>ff<arg_key>x</arg_key><arg_value>1</arg_value></tool_call> text", "text", {R"(ff{"x": 1})"}},
      {"<tool_call>f\n<arg_key>count</arg_key><arg_value>1</arg_value>\n</tool_call>", "", {R"(f{"count": 1})"}},
      {"<tool_call>f", "<tool_call>f", {}},
      {"<tool_call>fff</tool_call>", "<tool_call>fff</tool_call>", {}},
      {"<tool_call>fx</tool_call>", "<tool_call>fx</tool_call>", {}},
      {"<tool_call></tool_call>", "<tool_call></tool_call>", {}},
  };
  for (const AnswerCase& each : cases) expect_calls_of(each, callable_with_parameters(), kGlmCalls);
}

}  // namespace
}  // namespace inflight::server
