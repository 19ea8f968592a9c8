// SPDX-License-Identifier: Apache-2.0
#include "text/reasoning_format.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/bounded_json.h"
#include "base/error.h"
#include "text/special_tokens.h"

namespace inflight {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kQuestion = "probe_question", kThought = "probe_thought", kReply = "probe_reply";
constexpr std::string_view kMarkBlanks = " \t\r\n";
// Marks of models whose templates leave reasoning out.
constexpr std::pair<std::string_view, std::string_view> kUsualMarks[] = {{"<think>", "</think>"},
                                                                         {"[THINK]", "[/THINK]"}};
constexpr size_t kMarkBytesMax = 64;

std::string_view without_blanks_behind(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kMarkBlanks) + 1);
}

// The mark that `text` ends with, but for blanks: from its bracket on, on one line. "": none.
std::string_view mark_before(std::string_view text) {
  text = without_blanks_behind(text);
  const size_t at = text.find_last_of("<[");
  const std::string_view mark = at == text.npos ? "" : text.substr(at);
  const bool one_word = mark.size() > 2 && mark.size() <= kMarkBytesMax && mark.find_first_of(kMarkBlanks) == mark.npos;
  return one_word ? mark : "";
}

// The mark that it begins with, but for blanks.
std::string_view mark_behind(std::string_view text) {
  const size_t at = text.find_first_not_of(kMarkBlanks);
  if (at == text.npos || (text[at] != '<' && text[at] != '[')) return "";
  text.remove_prefix(at);
  const std::string_view mark = text.substr(0, text.find(text[0] == '<' ? '>' : ']') + 1);
  return mark.size() <= kMarkBytesMax && mark.find_first_of(kMarkBlanks) == mark.npos ? mark : "";
}

class ReasoningProbe {
 public:
  ReasoningProbe(const ChatTemplate& chat_template, const ChatSettings& settings)
      : template_(chat_template), settings_(settings) {}

  [[nodiscard]] ReasoningFormat format(const Vocabulary& vocabulary) const {
    ReasoningFormat format;
    if (is_harmony()) return {.kind = ReasoningFormat::Kind::Harmony, .behind = "", .field = "thinking"};
    for (const char* const field : {"reasoning_content", "reasoning", "thinking"}) {
      for (const bool calls : {false, true}) {  // some templates keep the reasoning of calls only
        const std::optional<std::string> text = answered(field, calls);
        if (!text || text->find(kThought) == text->npos) continue;
        format.field = field;
        if (read_marks(*text, format)) return format;
      }
    }
    const std::optional<std::string> prompt = asked(true);
    for (const auto& [begin, end] : kUsualMarks) {
      const bool opens = prompt && mark_before(*prompt) == begin;
      if (!opens && !(vocabulary.find(begin) && vocabulary.find(end))) continue;
      format.kind = ReasoningFormat::Kind::Marks;
      format.begin = begin;
      format.end = end;
      break;
    }
    return format;
  }

 private:
  // Whether prompts and answers are Harmony's.
  [[nodiscard]] bool is_harmony() const {
    const std::optional<std::string> prompt = asked(true);
    const std::optional<std::string> text = answered("thinking", false);
    return prompt && without_blanks_behind(*prompt).ends_with(harmony::kAnswer) && text &&
           text->find(std::string(harmony::kFinal).append(kReply)) != text->npos;
  }

  [[nodiscard]] bool read_marks(const std::string& text, ReasoningFormat& format) const {
    const size_t thought = text.find(kThought);
    const size_t behind = thought + kThought.size();
    const size_t reply = text.find(kReply, behind);
    if (reply == text.npos) return false;
    const std::string_view between = std::string_view(text).substr(behind, reply - behind);
    const std::string_view begin = mark_before(std::string_view(text).substr(0, thought)), end = mark_behind(between);
    if (begin.empty() || end.empty() || begin == end) return false;
    if (stands_around_questions(begin, end)) return false;
    const std::string_view rest = between.substr(between.find(end) + end.size());
    format.kind = ReasoningFormat::Kind::Marks;
    format.begin = begin;
    format.end = end;
    format.behind = rest.substr(0, rest.find_first_not_of(kMarkBlanks));
    return true;
  }

  // What is a mark of other messages is none of reasoning.
  [[nodiscard]] bool stands_around_questions(std::string_view begin, std::string_view end) const {
    const std::optional<std::string> text = asked(false);
    const size_t at = text ? text->rfind(kQuestion) : std::string::npos;
    if (at == std::string::npos) return true;
    const std::string_view before = std::string_view(*text).substr(0, at);
    return mark_before(before) == begin || text->find(end, at) != text->npos;
  }

  static Json message(const char* role, std::string_view content) { return Json{{"role", role}, {"content", content}}; }

  [[nodiscard]] std::optional<std::string> asked(bool add_generation_prompt) const {
    return render(Json::array({message("user", kQuestion)}), add_generation_prompt);
  }

  // A conversation with an answer, or a call, whose reasoning has this name.
  [[nodiscard]] std::optional<std::string> answered(const char* field, bool calls) const {
    Json answer = message("assistant", calls ? "" : kReply);
    answer[field] = kThought;
    if (calls) {
      Json call{{"id", kCallIdMark}, {"type", "function"}};
      call["function"] = Json{{"name", kReply}, {"arguments", Json::object()}};
      answer["tool_calls"].push_back(std::move(call));
    }
    return render(Json::array({message("user", kQuestion), std::move(answer)}), false);
  }

  [[nodiscard]] std::optional<std::string> render(Json messages, bool add_generation_prompt) const {
    Json request;
    request["messages"] = std::move(messages);
    request["add_generation_prompt"] = add_generation_prompt;
    request["enable_thinking"] = request["thinking"] = true;  // where templates ask whether to think
    try {
      return template_.render(request.dump(), settings_);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  const ChatTemplate& template_;
  const ChatSettings& settings_;
};

// Harmony's template refuses what it takes for two texts of reasoning: the content beside a call.
void join_content(Json& message, const std::string& field) {
  const auto content = message.find("content");
  if (!message.contains("tool_calls") || content == message.end() || !content->is_string()) return;
  if (const std::string text = content->get<std::string>(); !text.empty()) {
    message[field] = message[field].get<std::string>() + "\n" + text;
    *content = "";
  }
}

}  // namespace

ReasoningFormat find_reasoning_format(const ChatTemplate& chat_template, const ChatSettings& settings,
                                      const Vocabulary& vocabulary) {
  return ReasoningProbe(chat_template, settings).format(vocabulary);
}

AnswerBegin answer_begin(const ReasoningFormat& format, std::string_view prompt_end) {
  using Kind = ReasoningFormat::Kind;
  const std::string_view last = without_blanks_behind(prompt_end);
  if (format.kind == Kind::Marks) {
    if (last.ends_with(format.begin)) return AnswerBegin::Reasoning;
    return last.ends_with(format.end) ? AnswerBegin::Text : AnswerBegin::Undecided;
  }
  if (format.kind == Kind::None) return AnswerBegin::Undecided;
  const size_t start = prompt_end.rfind(harmony::kStart);
  const std::string_view header = prompt_end.substr(start == prompt_end.npos ? 0 : start);
  if (start != prompt_end.npos && header.find(harmony::kMessage) == header.npos) return AnswerBegin::Undecided;
  return header.find("analysis") == header.npos ? AnswerBegin::Text : AnswerBegin::Reasoning;
}

std::string adapt_reasoning(const ReasoningFormat& format, std::string_view request_json) {
  constexpr const char* kField = "reasoning_content";
  const bool renames = !format.field.empty() && format.field != kField;
  if (!renames || request_json.find(kField) == request_json.npos) return std::string(request_json);
  Json request = parse_json(request_json, "chat request");
  if (!request.is_object() || !request.contains("messages") || !request["messages"].is_array()) {
    return std::string(request_json);
  }
  for (Json& message : request["messages"]) {
    if (!message.is_object() || !message.contains(kField)) continue;
    const Json thought = message[kField];
    message.erase(kField);
    if (message.contains(format.field) || !thought.is_string()) continue;
    message[format.field] = thought;
    if (format.kind == ReasoningFormat::Kind::Harmony) join_content(message, format.field);
  }
  return request.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ToolCallFormat harmony_tool_calls(ToolCallFormat found) {
  found.begin = harmony::kCall;
  found.middle = harmony::kArguments;
  found.separator.clear();
  found.end.clear();  // the token that ends the answer
  found.from_template = found.plain_name = true;
  return found;
}

std::vector<TokenId> reasoning_tokens(const ReasoningFormat& format, const Vocabulary& vocabulary) {
  std::vector<std::string> texts = {format.begin, format.end};
  if (format.kind == ReasoningFormat::Kind::Harmony) {
    for (const std::string_view text : {harmony::kStart, harmony::kFinal, harmony::kArguments, harmony::kEnd}) {
      texts.emplace_back(text);
    }
  }
  return control_tokens_in(texts, vocabulary);
}

bool ReasoningWatch::see(std::string_view bytes) {
  if (begin_ == AnswerBegin::Text) return false;
  held_ += bytes;
  if (begin_ == AnswerBegin::Undecided) {
    held_.erase(0, std::min(held_.size(), held_.find_first_not_of(kMarkBlanks)));
    if (begin_mark_.starts_with(held_) && held_ != begin_mark_) return false;
    begin_ = held_.starts_with(begin_mark_) ? AnswerBegin::Reasoning : AnswerBegin::Text;
    if (begin_ == AnswerBegin::Text) return false;
    held_.erase(0, begin_mark_.size());
  }
  if (held_.find(end_mark_) != held_.npos) {
    begin_ = AnswerBegin::Text;
    held_.clear();
    return true;
  }
  size_t length = std::min(held_.size(), end_mark_.size() - 1);
  while (!held_.ends_with(std::string_view(end_mark_).substr(0, length))) --length;
  held_.erase(0, held_.size() - length);
  return true;
}

}  // namespace inflight
