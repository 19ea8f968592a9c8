// SPDX-License-Identifier: Apache-2.0
#include "text/tool_call_format.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/bounded_json.h"
#include "base/error.h"
#include "text/jinja_value.h"
#include "text/special_tokens.h"

namespace inflight {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kName = "probe_function";
constexpr std::string_view kKey = "probe_key", kValue = "probe_value";
constexpr std::string_view kArguments = R"({"probe_key": "probe_value"})";
constexpr std::string_view kOtherKey = "probe_number", kOtherValue = "271828";
constexpr std::string_view kFlagKey = "probe_truth";
constexpr std::string_view kThreeArguments =
    R"({"probe_key": "probe_value", "probe_number": 271828, "probe_truth": true})";
constexpr std::string_view kResult = "probe_result";
constexpr std::string_view kAnswer = "probe_answer";
constexpr std::string_view kSystem = "probe_system";
constexpr std::string_view kSpace = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// As templates write JSON.
std::string spaced_json(const Json& value) {
  jinja::Heap heap;
  return jinja::to_json(heap, heap.from_json(value), {});
}

// What the model is told that a template tells of no functions.
std::string instruction(const ToolCallFormat& format) {
  std::string form = R"(a JSON list: [{"name": NAME, "arguments": {...}}, ...])";
  if (format.from_template) {
    form.clear();
    std::string arguments = "{...}";
    if (const auto& as = format.elements) {
      const auto element = [&](const std::string& middle, const char* value) {
        return as->open + "PARAMETER" + middle + value + as->close;
      };
      arguments = as->string_middle == as->middle ? element(as->middle, "VALUE")
                                                  : element(as->string_middle, "STRING") + element(as->middle, "JSON");
      arguments += "...";
    } else if (const auto& member = format.members) {
      arguments = "PARAMETER" + member->middle + member->quote + "STRING" + member->quote + member->separator +
                  "PARAMETER" + member->middle + "VALUE" + member->separator + "...";
    }
    for (const FormPart& part : parts_of(format.begin + "NAME" + format.middle + arguments + format.end)) {
      form += part.text;
      if (part.then == FormPart::Then::Id) form += kCallIdMark;
      if (part.then == FormPart::Then::Index) form += '0';
    }
  }
  return "You can call functions. To call them, answer with nothing but " + form + ". The functions, one a line:";
}

// What the server's reader takes of JSON objects: members of these names.
bool has_named_members(const ToolCallFormat& format) {
  const std::string_view begin = format.begin, middle = format.middle;
  const size_t key = begin.rfind("\"name\"");
  const bool has_name = begin.ends_with('"') && key != begin.npos && trimmed(begin.substr(key + 6)).starts_with(':');
  const bool has_arguments =
      middle.find("\"arguments\"") != middle.npos || middle.find("\"parameters\"") != middle.npos;
  return has_name && middle.starts_with('"') && has_arguments && format.end.find('}') != format.end.npos;
}

bool is_letter(char byte) { return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'); }
bool is_letter_or_digit(char byte) { return is_letter(byte) || (byte >= '0' && byte <= '9'); }

// Whether a name ends before what follows it; elements may do so at once, and what ends a call without any.
bool ends_names(const ToolCallFormat& format) {
  if (!format.middle.empty()) return !is_letter_or_digit(format.middle[0]);
  return format.elements && (format.call_end().starts_with('<') || format.call_end().starts_with('['));
}

// Whether what ends a call's elements, if these are its arguments, is told from one more of them.
bool ends_elements(const ToolCallFormat& format) {
  if (!format.elements) return true;
  const std::string end = format.call_end();
  return !trimmed(end).empty() && !trimmed(end).starts_with(trimmed(format.elements->open));
}

// Whether a name as plain text can be told from other text and from what follows it: there is a mark before it that
// looks like one, and ids and numbers end before what is none.
bool has_plain_name(const ToolCallFormat& format) {
  const std::string mark = format.begin_mark();
  const auto open_ended = [](std::string_view text) {
    return text.ends_with(kCallIdMark) || text.ends_with(kCallIndexMark);
  };
  return std::ranges::any_of(mark, is_letter) && !std::ranges::all_of(mark, is_letter_or_digit) && ends_names(format) &&
         !open_ended(format.begin) && !open_ended(format.middle) && format.end.find(kCallIdMark) == format.end.npos &&
         format.middle.find(kName) == format.middle.npos && ends_elements(format);
}

// A middle like `first` but for a number that counts the calls: where that has it.
std::optional<size_t> index_place(std::string_view first, std::string_view second) {
  const auto at = static_cast<size_t>(std::ranges::mismatch(first, second).in1 - first.begin());
  const bool counts = first.size() == second.size() && at < first.size() && first[at] >= '0' && first[at] < '9' &&
                      second[at] == first[at] + 1 && first.substr(at + 1) == second.substr(at + 1);
  return counts ? std::optional(at) : std::nullopt;
}

// How far the answer `text` begins as the prompt does, which may end with what only new answers have, such as <think>:
// without the beginning of a mark, or of a character, that both happen to have.
size_t common_length(std::string_view prompt, std::string_view text) {
  auto behind = static_cast<size_t>(std::ranges::mismatch(prompt, text).in1 - prompt.begin());
  if (behind == prompt.size()) return behind;
  while (behind > 0 && behind < text.size() && (static_cast<uint8_t>(text[behind]) & 0xC0U) == 0x80) --behind;
  const size_t mark = text.substr(0, behind).find_last_of("<>[]");
  return mark != text.npos && (text[mark] == '<' || text[mark] == '[') ? mark : behind;
}

// Behind what ends `mark`'s element (</think> of <think>, and of itself) and the blanks around that, where it stands at
// `at`; else 0.
size_t behind_end_of(std::string_view mark, std::string_view text, size_t at) {
  std::string end(mark);
  if (end.find('/') != 1) end.insert(1, "/");
  at = text.find_first_not_of(kSpace, at);
  if (at == text.npos || !text.substr(at).starts_with(end)) return 0;
  return std::min(text.size(), text.find_first_not_of(kSpace, at + end.size()));
}

// How much of the answer `body` is reasoning without a word: the marks <think> and </think>, or such as those, of which
// the prompt may end with the first, or with both.
size_t reasoning_length(std::string_view prompt, std::string_view body) {
  prompt = trimmed(prompt);
  const size_t last = prompt.find_last_of("<[");
  if (last != prompt.npos && (prompt.ends_with('>') || prompt.ends_with(']'))) {
    if (const size_t length = behind_end_of(prompt.substr(last), body, 0)) return length;
  }
  const size_t first = body.find_first_not_of(kSpace);
  if (first == body.npos || (body[first] != '<' && body[first] != '[')) return 0;
  const size_t last_byte = body.find_first_of(">]", first);
  if (last_byte == body.npos) return 0;
  return behind_end_of(body.substr(first, last_byte + 1 - first), body, last_byte + 1);
}

// The texts before each of `marks`, which follow each other in `text`, and behind the last; nothing where one is
// missing.
std::optional<std::vector<std::string>> texts_around(std::string_view text,
                                                     std::initializer_list<std::string_view> marks) {
  std::vector<std::string> texts;
  for (const std::string_view mark : marks) {
    const size_t at = text.find(mark);
    if (at == text.npos) return std::nullopt;
    texts.emplace_back(text.substr(0, at));
    text.remove_prefix(at + mark.size());
  }
  texts.emplace_back(text);
  return texts;
}

// Parts what stands between two elements into the end of one and the beginning of the next, which is a tag.
//   head: before the first name; tail: behind the last value; none: both of a call without arguments, but for blanks.
bool read_elements(const std::string& head, const std::string& between, const std::string& tail,
                   const std::string& none, ToolCallFormat& format) {
  for (size_t length = 1; length < between.size(); ++length) {
    const std::string close = between.substr(0, length), open = between.substr(length);
    if ((open[0] != '<' && open[0] != '[') || trimmed(close).empty()) continue;
    if (!head.ends_with(open) || !tail.starts_with(close)) continue;
    format.middle = head.substr(0, head.size() - open.size());
    format.end = tail.substr(close.size());
    format.elements->open = open;
    format.elements->close = close;
    const std::string_view behind = std::string_view(none).substr(std::min(none.size(), format.middle.size()));
    if (none.starts_with(format.middle) && trimmed(behind) == trimmed(format.end)) return true;
  }
  return false;
}

// How a template writes kArguments.
std::string written_arguments(const ToolCallFormat& format) {
  if (const auto& as = format.elements)
    return std::string(as->open).append(kKey).append(as->string_middle).append(kValue).append(as->close);
  if (const auto& as = format.members)
    return std::string(kKey).append(as->middle).append(as->quote).append(kValue).append(as->quote);
  return std::string(kArguments);
}

class Probe {
 public:
  Probe(const ChatTemplate& chat_template, const ChatSettings& settings)
      : template_(chat_template), settings_(settings) {
    function_["type"] = "function";
    function_["function"]["name"] = kName;
    function_["function"]["description"] = "probe";
    function_["function"]["parameters"] =
        Json::parse(R"({"type": "object", "properties": {"probe_key": {"type": "string"}}})");
    turn_end_ = end_of_turn();
  }

  // None: the template writes no calls that can be read.
  [[nodiscard]] std::optional<ToolCallFormat> format() const {
    std::optional<ToolCallFormat> format = format_of_one();
    if (!format) return std::nullopt;
    format->plain_name = !has_named_members(*format);
    if (format->plain_name) {
      find_separator_of_names(*format);
    } else {
      format->separator = separator(*format);
    }
    const bool ends = ends_calls(*format);
    return ends && (!format->plain_name || has_plain_name(*format)) ? format : std::nullopt;
  }

  [[nodiscard]] bool tells_tools() const {
    const std::optional<std::string> text = render(Json::array({message("user", "probe")}), true);
    return text && text->find(kName) != text->npos;
  }

  [[nodiscard]] bool takes_system_message() const {
    Json messages = Json::array({message("system", kSystem), message("user", "probe")});
    const std::optional<std::string> text = render(std::move(messages), false);
    return text && text->find(kSystem) != text->npos;
  }

 private:
  // The texts around a call.
  [[nodiscard]] std::optional<ToolCallFormat> format_of_one() const {
    const std::optional<std::string> body = body_of(1);
    if (!body) return std::nullopt;
    ToolCallFormat format;
    format.from_template = true;
    const size_t name = body->find(kName);
    const size_t arguments = body->find(kArguments, name == body->npos ? name : name + kName.size());
    if (arguments == body->npos) return with_parts(std::move(format));
    const size_t behind = arguments + kArguments.size();
    format.begin = body->substr(0, name);
    format.middle = body->substr(name + kName.size(), arguments - name - kName.size());
    format.end = body->substr(behind);
    return format;
  }

  // The same where the arguments are elements or members: by calls with none, and with three of them.
  [[nodiscard]] std::optional<ToolCallFormat> with_parts(ToolCallFormat format) const {
    const std::optional<std::string> none = body_of(1, "{}"), three = body_of(1, kThreeArguments);
    if (!none || !three) return std::nullopt;
    const auto empty = texts_around(*none, {kName});
    const auto parts = texts_around(*three, {kName, kKey, kValue, kOtherKey, kOtherValue, kFlagKey});
    if (!empty || !parts) return std::nullopt;
    const auto &begin = (*parts)[0], &string_middle = (*parts)[2], &middle = (*parts)[4], &rest = parts->back();
    const std::string &between = (*parts)[3], &plain_between = (*parts)[5];
    const bool python = rest.starts_with(middle + "True");
    if ((*empty)[0] != begin || !(python || rest.starts_with(middle + "true"))) return std::nullopt;
    format.begin = begin;
    const std::string tail = rest.substr(middle.size() + std::string_view("true").size());
    if (between != plain_between) {
      const std::string quote = string_middle.substr(std::min(middle.size(), string_middle.size()));
      format.members = {.middle = middle, .separator = plain_between, .quote = quote, .python_words = python};
      format.middle = (*parts)[1];
      format.end = tail;
      const bool read = string_middle == middle + quote && between == quote + plain_between && has_members(format) &&
                        empty->back() == format.middle + format.end;
      return read ? std::optional(format) : std::nullopt;
    }
    const bool tells_strings = !middle.ends_with(string_middle) && !string_middle.ends_with(middle);
    if (string_middle != middle && !tells_strings) return std::nullopt;
    format.elements = {
        .open = "", .string_middle = string_middle, .middle = middle, .close = "", .python_words = python};
    const bool read = read_elements((*parts)[1], between, tail, empty->back(), format);
    return read && !trimmed(format.end).empty() ? std::optional(format) : std::nullopt;
  }

  // Whether members between those texts can be told apart, and are written within objects as MemberForm says.
  [[nodiscard]] bool has_members(const ToolCallFormat& format) const {
    const MemberForm& as = *format.members;
    const bool braces = format.middle.ends_with('{') && format.end.starts_with('}');
    const bool parentheses = format.middle.ends_with('(') && format.end.starts_with(')');
    const bool marks = (as.middle == ":" || as.middle == "=") && trimmed(as.separator) == "," && !as.quote.empty();
    if (!(braces || parentheses) || !marks) return false;
    const std::string_view inner = R"({"probe_key": {"probe_name": "probe_value"}})";
    const std::optional<std::string> text = body_of(1, inner);
    const auto parts = text ? texts_around(*text, {kKey, "probe_name", kValue}) : std::nullopt;
    if (!parts) return false;
    return as.has_long_quote() ? (*parts)[1] == as.middle + "{" && (*parts)[2] == ":" + as.quote
                               : as.quote == "'" || as.quote == "\"";
  }

  // Also finds out whether the calls are counted, before their names or behind.
  void find_separator_of_names(ToolCallFormat& format) const {
    format.separator.clear();
    const std::string written = written_arguments(format);
    const std::optional<std::string> three = body_of(3);
    const auto parts = three ? texts_around(*three, {kName, written, kName, written, kName, written}) : std::nullopt;
    if (!parts || (*parts)[0] != format.begin || (*parts)[1] != format.middle) return;
    std::string separator = (*parts)[2];
    const std::string &middle = (*parts)[3], &next_separator = (*parts)[4], &next_middle = (*parts)[5];
    if (separator != next_separator) {
      const std::optional<size_t> index = index_place(separator, next_separator);
      if (!index) return;
      const std::string behind = separator.substr(*index + 1);
      const std::string counted = static_cast<char>(separator[*index] - 1) + behind;
      if (!format.begin.ends_with(counted)) return;
      format.begin.replace(format.begin.size() - counted.size(), 1, kCallIndexMark);
      separator.replace(*index, 1, kCallIndexMark);
    }
    if (middle != format.middle || middle != next_middle) {
      const std::optional<size_t> index = index_place(format.middle, middle);
      if (!index || index_place(middle, next_middle) != index) return;
      format.middle.replace(*index, 1, kCallIndexMark);
    }
    format.separator = separator;
  }

  // Where calls end a turn with another mark than answers do, or with none, the last one ends as each does, if that
  // closes all brackets, or else as calls do that nothing follows.
  [[nodiscard]] bool ends_calls(ToolCallFormat& format) const {
    if (format.end.find(kResult) == format.end.npos) return true;
    const std::optional<std::string> last = body_of(1, kArguments, false);
    const auto parts = last ? texts_around(*last, {kName, written_arguments(format)}) : std::nullopt;
    const std::string followed = std::exchange(format.end, "");
    for (const std::string& other : {format.separator, parts ? parts->back() : ""}) {
      format.end = followed.substr(0, common_length(other, followed));
      const std::string whole = format.begin + format.middle + format.end;
      const bool closes = std::ranges::count(whole, '{') == std::ranges::count(whole, '}') &&
                          std::ranges::count(whole, '[') == std::ranges::count(whole, ']');
      if (closes && !format.end.empty()) return true;
    }
    return false;
  }

  // What stands between two calls; empty: the template writes one only.
  [[nodiscard]] std::string separator(const ToolCallFormat& format) const {
    const std::optional<std::string> body = body_of(2);
    const std::string first = format.begin + std::string(kName) + format.middle + std::string(kArguments);
    const std::string second = std::string(kName) + format.middle + std::string(kArguments);
    if (!body || !body->starts_with(first)) return "";
    const size_t at = body->find(second, first.size());
    return at == body->npos ? "" : body->substr(first.size(), at - first.size());
  }

  static Json message(const char* role, std::string_view content) { return Json{{"role", role}, {"content", content}}; }

  [[nodiscard]] std::optional<std::string> render(Json messages, bool add_generation_prompt) const {
    Json request;
    request["messages"] = std::move(messages);
    request["tools"] = Json::array({function_});
    request["add_generation_prompt"] = add_generation_prompt;
    try {
      return template_.render(request.dump(), settings_);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  // What an answer of so many calls is, up to the end of its turn; where that is not there, the calls' results are,
  // too.
  [[nodiscard]] std::optional<std::string> body_of(int count, std::string_view arguments = kArguments,
                                                   bool results = true) const {
    Json messages = Json::array({message("user", "probe")});
    const std::optional<std::string> asked = render(messages, false), prompt = render(messages, true);
    Json answer = message("assistant", "");
    for (int i = 0; i < count; ++i) {
      Json call;
      call["id"] = kCallIdMark;
      call["type"] = "function";
      call["function"]["name"] = kName;
      call["function"]["arguments"] = Json::parse(arguments);
      answer["tool_calls"].push_back(std::move(call));
    }
    messages.push_back(std::move(answer));
    // With results, so that it is no last message, which some templates treat otherwise.
    for (int i = 0; results && i < count; ++i) {
      messages.push_back(message("tool", kResult));
      messages.back()["tool_call_id"] = kCallIdMark;
      messages.back()["name"] = kName;
    }
    const std::optional<std::string> text = render(std::move(messages), false);
    if (!asked || !prompt || !text) return std::nullopt;
    const size_t begin = common_length(*prompt, *text);
    if (begin != prompt->size() && (begin < asked->size() || !text->starts_with(*asked))) return std::nullopt;
    std::string body = text->substr(begin);
    body.erase(0, reasoning_length(*prompt, body));
    // Where the prompt's blanks are others, the answer's own beginning may be missed.
    const std::string_view added =
        prompt->starts_with(*asked) ? trimmed(std::string_view(*prompt).substr(asked->size())) : "";
    const std::string_view head = added.substr(0, added.find_first_of(kSpace));
    if (!head.empty() && std::string_view(body).substr(0, body.find(kName)).find(head) != body.npos)
      return std::nullopt;
    // Calls may end their turn with the last of the marks with which answers do.
    const size_t name = std::min(body.size(), body.find(kName)), result = body.find(kResult, name);
    std::string_view end = turn_end_;
    while (!end.empty() && body.find(end, name) >= result)
      end.remove_prefix(std::min(end.size() - 1, end.find_first_of(">]")) + 1);
    if (!end.empty()) body.resize(body.find(end, name));
    return body;
  }

  // What stands behind a last answer or, where that is nothing, the first mark behind one that is not the last, which
  // may be of what follows it. "": none.
  [[nodiscard]] std::string end_of_turn() const {
    Json messages = Json::array({message("user", "probe"), message("assistant", kAnswer)});
    const std::optional<std::string> last = render(messages, false);
    messages.push_back(messages.front());
    const std::optional<std::string> followed = render(std::move(messages), false);
    const auto behind_answer = [](const std::optional<std::string>& text) {
      const size_t at = text ? text->rfind(kAnswer) : std::string::npos;
      return at == std::string::npos ? "" : std::string(trimmed(std::string_view(*text).substr(at + kAnswer.size())));
    };
    if (std::string end = behind_answer(last); !end.empty()) return end;
    const std::string end = behind_answer(followed);
    return end.substr(0, end.find_first_of(">]") + 1);
  }

  const ChatTemplate& template_;
  const ChatSettings& settings_;
  Json function_;
  std::string turn_end_;  // "": not known
};

// Nine letters or digits, the same for the same id.
void fit_id(Json& id) {
  if (!id.is_string() || id.get_ref<const std::string&>().size() == kCallIdMark.size()) return;
  std::string fitted;
  std::ranges::copy_if(id.get_ref<const std::string&>(), std::back_inserter(fitted), is_letter_or_digit);
  fitted.insert(0, kCallIdMark.size(), '0');
  id = fitted.substr(fitted.size() - kCallIdMark.size());
}

void fit_ids(Json& messages) {
  for (Json& message : messages) {
    if (message.contains("tool_call_id")) fit_id(message["tool_call_id"]);
    if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) continue;
    for (Json& call : message["tool_calls"]) {
      if (call.is_object() && call.contains("id")) fit_id(call["id"]);
    }
  }
}

std::string text_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Calls and results as the text that instruction() asks for in the form of our own.
void write_as_text(Json& messages) {
  Json written = Json::array();
  bool joins = false;  // the last message is of the user, and made of results
  for (Json& message : messages) {
    const bool result = text_in(message, "role") == "tool";
    if (result) {
      Json told;
      told["tool_response"] = message.value("content", Json());
      message = Json{{"role", "user"}, {"content", told.dump(-1, ' ', false, Json::error_handler_t::replace)}};
    } else if (const auto calls = message.find("tool_calls"); calls != message.end() && calls->is_array()) {
      Json list = Json::array();
      for (const Json& call : *calls) {
        const Json& function = call.is_object() && call.contains("function") ? call["function"] : call;
        if (!function.is_object()) continue;
        list.push_back(
            Json{{"name", text_in(function, "name")}, {"arguments", function.value("arguments", Json::object())}});
      }
      const std::string content = text_in(message, "content");
      message = Json{{"role", "assistant"}, {"content", content + (content.empty() ? "" : "\n") + spaced_json(list)}};
    }
    if (joins && text_in(message, "role") == "user") {
      written.back()["content"] = text_in(written.back(), "content") + "\n" + text_in(message, "content");
    } else {
      written.push_back(std::move(message));
    }
    joins = result;
  }
  messages = std::move(written);
}

void tell_functions(const ToolCallFormat& format, const Json& tools, Json& messages) {
  std::string told = instruction(format);
  for (const Json& tool : tools) {
    told += "\n" + spaced_json(tool.is_object() && tool.contains("function") ? tool["function"] : tool);
  }
  const bool has_system = !messages.empty() && text_in(messages[0], "role") == "system";
  if (has_system || !format.system_message) {
    if (messages.empty() || !messages[0].is_object()) return;
    const std::string content = text_in(messages[0], "content");
    messages[0]["content"] = has_system ? content + "\n\n" + told : told + "\n\n" + content;
    return;
  }
  messages.insert(messages.begin(), Json{{"role", "system"}, {"content", told}});
}

}  // namespace

std::vector<FormPart> parts_of(std::string_view form) {
  std::vector<FormPart> parts;
  while (true) {
    const size_t id = form.find(kCallIdMark), index = form.find(kCallIndexMark);
    const size_t at = std::min(id, index);
    parts.push_back({std::string(form.substr(0, at))});
    if (at == form.npos) return parts;
    parts.back().then = id < index ? FormPart::Then::Id : FormPart::Then::Index;
    form.remove_prefix(at + (id < index ? kCallIdMark : kCallIndexMark).size());
  }
}

bool ToolCallFormat::has_ids() const {
  return std::ranges::any_of(std::array{&begin, &middle, &end},
                             [](const std::string* part) { return part->find(kCallIdMark) != part->npos; });
}

std::string ToolCallFormat::begin_mark() const {
  const size_t json = std::min({begin.find('{'), begin.find(kCallIdMark), begin.find(kCallIndexMark)});
  const std::string_view before = std::string_view(begin).substr(0, json);
  const std::string_view mark = trimmed(before.substr(0, before.find_last_not_of("[ \t\r\n") + 1));
  const bool has_tags = elements && mark.starts_with('<') && mark.find('>') != mark.npos;
  return std::string(has_tags ? mark.substr(0, mark.find('>') + 1) : mark);
}

std::string ToolCallFormat::call_end() const {
  if (members) return end.substr(0, 1);
  if (!elements) return "";
  const auto differs = static_cast<size_t>(std::ranges::mismatch(separator, end).in2 - end.begin());
  const std::string common = separator.empty() ? end : end.substr(0, differs);
  const size_t tag = common.find_first_of(">]");
  return common.substr(0, tag == common.npos ? tag : tag + 1);
}

std::string ToolCallFormat::end_mark() const {
  if (plain_name) return end.substr(call_end().size());
  const size_t last = end.find_last_of("}]");
  return last == end.npos ? "" : std::string(trimmed(std::string_view(end).substr(last + 1)));
}

ToolCallFormat find_tool_call_format(const ChatTemplate& chat_template, const ChatSettings& settings) {
  const Probe probe(chat_template, settings);
  ToolCallFormat format = probe.format().value_or(ToolCallFormat{});
  format.tells_tools = probe.tells_tools();
  format.system_message = probe.takes_system_message();
  return format;
}

std::vector<TokenId> tool_call_tokens(const ToolCallFormat& format, const Vocabulary& vocabulary) {
  std::vector<std::string> texts = {format.begin, format.middle, format.separator, format.end, "<|python_tag|>"};
  if (const auto& as = format.elements) texts.insert(texts.end(), {as->open, as->string_middle, as->middle, as->close});
  if (const auto& as = format.members) texts.push_back(as->quote);
  return control_tokens_in(texts, vocabulary);
}

std::string adapt_to_format(const ToolCallFormat& format, std::string_view request_json) {
  const bool told = format.from_template && format.tells_tools;
  if (told && !format.has_ids()) return std::string(request_json);
  Json request = parse_json(request_json, "chat request");
  const auto messages = request.is_object() ? request.find("messages") : request.end();
  const bool well_formed = request.is_object() && messages != request.end() && messages->is_array() &&
                           std::ranges::all_of(*messages, [](const Json& message) { return message.is_object(); });
  if (!well_formed) return std::string(request_json);
  if (format.has_ids()) fit_ids(*messages);
  if (!format.from_template) write_as_text(*messages);
  const auto tools = request.find("tools");
  if (!told && tools != request.end() && tools->is_array() && !tools->empty()) {
    tell_functions(format, *tools, *messages);
    request.erase("tools");
  }
  return request.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace inflight
