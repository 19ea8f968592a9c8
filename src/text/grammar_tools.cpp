// SPDX-License-Identifier: Apache-2.0
#include "text/grammar_tools.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/bounded_json.h"
#include "base/error.h"
#include "text/grammar_json.h"
#include "text/special_tokens.h"
#include "text/token_trie.h"

namespace inflight {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kCallsMax = 16;       // a model that does not end its calls is made to
constexpr int64_t kIndexDigitsMax = 4;  // of a number that counts a conversation's calls
// Around control tokens in a grammar's text, which is JSON: kControlBegin and kControlEnd are no UTF-8.
constexpr char kMarkBegin = '\x02', kMarkEnd = '\x03';

[[noreturn]] void refuse(const std::string& message) {
  fail(ErrorCode::InvalidArgument, "structured_tools: {}", message);
}

Json parse(std::string_view text) {
  Json json = parse_json(text, "structured_tools");
  if (!json.is_object()) refuse("not a JSON object");
  return json;
}

// Control tokens that the text spells get marks around them.
std::string mark_control_tokens(const std::string& text, const SpecialTokens& special, const Vocabulary& vocabulary) {
  std::string marked;
  size_t at = 0;
  while (const auto match = special.find(text, at, true)) {
    const bool control = vocabulary.is_control(match->id);
    marked.append(text, at, match->offset - at);
    if (control) marked += kMarkBegin;
    marked.append(text, match->offset, match->length);
    if (control) marked += kMarkEnd;
    at = match->offset + match->length;
  }
  return marked.append(text, at);
}

// A function of which no parameter is declared has none, as OpenAI's reference says.
bool takes_nothing(const Json& parameters) {
  constexpr std::string_view kNeutral[] = {"type", "properties", "required", "title", "description", "$schema"};
  for (const auto& [keyword, value] : parameters.items()) {
    if (std::ranges::find(kNeutral, keyword) == std::end(kNeutral)) return false;
  }
  return !parameters.contains("properties") || parameters["properties"].empty();
}

// The function that the choice names; "": it names none.
std::string chosen_name(const Json& choice) {
  if (choice == "auto" || choice == "required") return "";
  const Json function = choice.is_object() ? choice.value("function", choice) : Json();
  const auto name = function.find("name");
  if (!function.is_object() || name == function.end() || !name->is_string()) {
    refuse("tool_choice must be \"auto\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": ...}}");
  }
  return name->get<std::string>();
}

}  // namespace

ToolRequest read_tool_request(std::string_view json) {
  const Json given = parse(json);
  const auto tools = given.find("tools");
  if (tools == given.end() || !tools->is_array() || tools->empty()) refuse("tools must be a list of functions");
  const Json choice = given.value("tool_choice", Json("auto"));
  const std::string chosen = chosen_name(choice);
  ToolRequest request;
  request.forced = choice != "auto";
  for (size_t i = 0; i < tools->size(); ++i) {
    const Json& tool = (*tools)[i];
    const Json function = tool.is_object() ? tool.value("function", Json()) : Json();
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string()) {
      refuse(fmt::format("tools[{}].function has no name", i));
    }
    if (!chosen.empty() && function["name"] != chosen) continue;
    Json kept;
    kept["name"] = function["name"];
    kept["parameters"] = function.value("parameters", Json::object());
    if (!kept["parameters"].is_object()) refuse(fmt::format("tools[{}].function.parameters is no JSON schema", i));
    if (takes_nothing(kept["parameters"])) kept["parameters"]["additionalProperties"] = false;
    kept["strict"] = function.value("strict", Json(false));
    if (!kept["strict"].is_boolean()) refuse(fmt::format("tools[{}].function.strict must be true or false", i));
    request.functions.push_back(std::move(kept));
  }
  if (request.functions.empty()) refuse(fmt::format("tool_choice names '{}', which is none of the tools", chosen));
  const Json parallel = given.value("parallel_tool_calls", Json(true));
  if (!parallel.is_boolean()) refuse("parallel_tool_calls must be true or false");
  request.parallel = parallel.get<bool>() && chosen.empty();
  return request;
}

std::string tool_call_trigger(const ToolCallFormat& format) {
  const std::string mark = format.begin_mark();
  return mark.empty() ? format.begin : mark;
}

std::string behind_trigger(const ToolCallFormat& format) {
  const std::string trigger = tool_call_trigger(format);
  return format.begin.substr(format.begin.find(trigger) + trigger.size());
}

std::string tool_grammar_text(const ToolRequest& request, const ToolCallFormat& format, const Vocabulary& vocabulary,
                              CallsBegin begins) {
  const SpecialTokens special(vocabulary);
  const auto marked = [&](const std::string& text) { return mark_control_tokens(text, special, vocabulary); };
  Json text;
  text["begin"] = marked(begins == CallsBegin::BehindTrigger ? behind_trigger(format) : format.begin);
  text["middle"] = marked(format.middle);
  text["separator"] = request.parallel ? marked(format.separator) : "";
  text["end"] = marked(format.end);
  text["forced"] = request.forced;
  text["plain_name"] = format.plain_name;
  if (const auto& as = format.elements) {
    text["elements"] = {{"open", marked(as->open)},
                        {"string_middle", marked(as->string_middle)},
                        {"middle", marked(as->middle)},
                        {"close", marked(as->close)},
                        {"python_words", as->python_words}};
  }
  if (const auto& as = format.members) {
    text["members"] = {{"middle", marked(as->middle)},
                       {"separator", marked(as->separator)},
                       {"quote", marked(as->quote)},
                       {"python_words", as->python_words}};
  }
  text["functions"] = request.functions;
  return text.dump(-1, ' ', false, Json::error_handler_t::replace);
}

namespace grammar {
namespace {

class ToolCalls {
 public:
  ToolCalls(std::string_view text, Budget& budget)
      : given_(parse(text)), members_(members_of(given_)), builder_(budget), text_(builder_, members_) {
    if (!given_.contains("elements")) return;
    const Json& as = given_["elements"];
    elements_ = {control_tokens(as["open"]), control_tokens(as["string_middle"]), control_tokens(as["middle"]),
                 control_tokens(as["close"]), as["python_words"].get<bool>()};
  }

  Program compile() {
    std::vector<NodeId> functions;
    for (const Json& function : given_["functions"]) functions.push_back(call_of(function));
    const int32_t call = builder_.new_rule("call");
    builder_.define(call, builder_.any_of(std::move(functions)));
    std::vector<NodeId> parts{literal("begin"), builder_.call(call)};
    if (!given_["separator"].get_ref<const std::string&>().empty()) {
      const NodeId more = builder_.sequence({literal("separator"), builder_.call(call)});
      parts.push_back(builder_.repeat(more, 0, kCallsMax - 1));
    }
    parts.push_back(literal("end"));
    const int32_t root = builder_.new_rule("calls");
    builder_.define(root, builder_.sequence(std::move(parts)));
    return builder_.compile(root);
  }

 private:
  // NAME middle ARGUMENTS
  NodeId call_of(const Json& function) {
    const std::string name = function["name"].dump();
    Json parameters = function["parameters"];
    if (!parameters.contains("type")) parameters["type"] = "object";
    const bool strict = function["strict"].get<bool>();
    try {
      check(parameters, strict);
    } catch (const Error& error) {
      // Where the model may call as it likes, a schema that cannot be followed is as if it were not there.
      if (strict || given_["forced"].get<bool>()) fail(error.code(), "tool {}: {}", name, error.what());
      parameters = Json{{"type", "object"}};
    }
    const bool plain = given_["plain_name"].get<bool>();
    const std::string written = plain ? function["name"].get<std::string>() : name.substr(1, name.size() - 2);
    return builder_.sequence(
        {builder_.literal(written), literal("middle"), arguments_of(builder_, text_, parameters, strict)});
  }

  NodeId arguments_of(Builder& builder, JsonText& text, const Json& parameters, bool strict) const {
    if (elements_) return json_elements(builder, text, parameters, strict, *elements_);
    if (members_) return json_members(builder, text, parameters, strict, *members_);
    return json_document(builder, text, parameters, strict);
  }

  // ERRORS: why no grammar is made of them.
  void check(const Json& parameters, bool strict) {
    Builder builder(builder_.budget());
    JsonText text(builder, members_);
    const NodeId arguments = arguments_of(builder, text, parameters, strict);
    const int32_t rule = builder.new_rule("arguments");
    builder.define(rule, arguments);
    static_cast<void>(builder.compile(rule));
  }

  NodeId literal(const char* part) {
    const CharacterSet digits('0', '9');
    CharacterSet alphanumeric = digits;
    alphanumeric.add('A', 'Z');
    alphanumeric.add('a', 'z');
    std::vector<NodeId> parts;
    for (FormPart& form_part : parts_of(given_[part].get_ref<const std::string&>())) {
      parts.push_back(builder_.literal(control_tokens(std::move(form_part.text))));
      const auto length = static_cast<int64_t>(kCallIdMark.size());
      if (form_part.then == FormPart::Then::Id) {
        parts.push_back(builder_.repeat(builder_.characters(alphanumeric), length, length));
      } else if (form_part.then == FormPart::Then::Index) {
        parts.push_back(builder_.repeat(builder_.characters(digits), 1, kIndexDigitsMax));
      }
    }
    return builder_.sequence(std::move(parts));
  }

  static std::string control_tokens(std::string text) {
    std::ranges::replace(text, kMarkBegin, kControlBegin);
    std::ranges::replace(text, kMarkEnd, kControlEnd);
    return text;
  }

  static std::optional<MemberForm> members_of(const Json& given) {
    const auto found = given.find("members");
    if (found == given.end()) return std::nullopt;
    const Json& as = *found;
    return MemberForm{control_tokens(as["middle"]), control_tokens(as["separator"]), control_tokens(as["quote"]),
                      as["python_words"].get<bool>()};
  }

  Json given_;
  std::optional<MemberForm> members_;  // as which the arguments are written
  Builder builder_;
  JsonText text_;
  std::optional<ElementForm> elements_;  // the same
};

}  // namespace

Program compile_tool_calls(std::string_view text, Budget& budget) { return ToolCalls(text, budget).compile(); }

}  // namespace grammar
}  // namespace inflight
