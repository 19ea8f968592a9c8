// SPDX-License-Identifier: Apache-2.0
#include "server/reasoning_parser.h"

#include <algorithm>
#include <span>
#include <utility>

namespace inflight::server {
namespace {

using MarksKind = ReasoningMarks::Kind;

constexpr std::string_view kWhiteSpace = " \t\r\n";
constexpr size_t kHeaderBytesMax = 512;  // what is longer is none
constexpr std::string_view kStart = "<|start|>", kChannel = "<|channel|>", kMessage = "<|message|>";
constexpr std::string_view kFunction = "to=functions.";
// What ends a message, or begins the next one.
constexpr std::string_view kMessageEnds[] = {"<|end|>", "<|return|>", "<|call|>", kStart, kChannel};

std::string_view without_trailing_space(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kWhiteSpace) + 1);
}

std::string_view without_leading_space(std::string_view text) {
  return text.substr(std::min(text.size(), text.find_first_not_of(kWhiteSpace)));
}

// Where the longest end of `text` begins that begins one of the marks.
size_t partial_mark(std::string_view text, std::span<const std::string_view> marks) {
  size_t longest = 0;
  for (const std::string_view mark : marks) {
    for (size_t length = std::min(mark.size() - 1, text.size()); length > longest; --length) {
      if (text.ends_with(mark.substr(0, length))) longest = length;
    }
  }
  return text.size() - longest;
}

// The word behind the last `mark`; "": there is none.
std::string_view word_behind(std::string_view text, std::string_view mark) {
  const size_t at = text.rfind(mark);
  if (at == text.npos) return "";
  text.remove_prefix(at + mark.size());
  return text.substr(0, text.find_first_of(" \t\r\n<"));
}

// Whether a message's header may begin so.
bool may_be_header(std::string_view text) {
  text = without_leading_space(text);
  const auto agrees = [text](std::string_view word) { return text.starts_with(word) || word.starts_with(text); };
  return agrees("<|") || agrees("to=");
}

}  // namespace

ReasoningMarks read_reasoning_marks(const Json& reasoning) {
  const Json& kind = reasoning["kind"];
  return {.kind = kind == "marks"     ? MarksKind::Marks
                  : kind == "harmony" ? MarksKind::Harmony
                                      : MarksKind::None,
          .begin = reasoning["begin"].get<std::string>(),
          .end = reasoning["end"].get<std::string>()};
}

ReasoningParser::ReasoningParser(ReasoningMarks marks, std::vector<std::string> functions, std::string_view prompt)
    : marks_(std::move(marks)), functions_(std::move(functions)) {
  begin_behind(prompt);
}

void ReasoningParser::begin_behind(std::string_view prompt) {
  if (marks_.kind == MarksKind::Harmony) {
    const size_t start = prompt.rfind(kStart);
    AnswerParts of_prompt;
    const std::string_view header = start == prompt.npos ? "" : prompt.substr(start + kStart.size());
    if (const size_t end = header.find(kMessage); end != header.npos) open_message(header.substr(0, end), of_prompt);
    return;
  }
  const std::string_view last = without_trailing_space(prompt);
  if (marks_.kind == MarksKind::None || last.ends_with(marks_.end)) state_ = State::Text;
  if (marks_.kind == MarksKind::Marks && last.ends_with(marks_.begin)) {
    state_ = State::Reasoning;
    strips_ = true;
  }
}

AnswerParts ReasoningParser::push(std::string_view text) {
  AnswerParts parts;
  held_ += text;
  while (step(parts, false)) continue;
  return parts;
}

AnswerParts ReasoningParser::finish() {
  AnswerParts parts;
  while (step(parts, true)) continue;
  if (state_ == State::Call) close_call(parts);
  return parts;
}

// Whether there is more to do.
bool ReasoningParser::step(AnswerParts& parts, bool at_end) {
  const bool harmony = marks_.kind == MarksKind::Harmony;
  if (state_ == State::Begin) return harmony ? read_header(parts, at_end) : read_begin(at_end);
  return harmony ? read_message(parts, at_end) : read_marked(parts, at_end);
}

bool ReasoningParser::read_begin(bool at_end) {
  const std::string_view text = without_leading_space(held_);
  if (!at_end && text != marks_.begin && std::string_view(marks_.begin).starts_with(text)) return false;
  const bool reasons = text.starts_with(marks_.begin);
  state_ = reasons ? State::Reasoning : State::Text;
  if (!reasons) return true;
  held_.erase(0, held_.size() - text.size() + marks_.begin.size());
  strips_ = true;
  return true;
}

bool ReasoningParser::read_marked(AnswerParts& parts, bool at_end) {
  if (strips_) held_.erase(0, std::min(held_.size(), held_.find_first_not_of(kWhiteSpace)));
  if (held_.empty()) return false;
  strips_ = false;
  if (state_ == State::Text) {
    parts.add_text(std::exchange(held_, ""));
    return false;
  }
  const std::string_view text = held_, end = marks_.end;
  const size_t mark = text.find(end);
  const bool ends = mark != text.npos;
  const std::string_view known = ends     ? text.substr(0, mark)
                                 : at_end ? text
                                          : text.substr(0, partial_mark(text, {&end, 1}));
  const std::string_view told = without_trailing_space(known);
  parts.add_reasoning(told);
  if (ends) {
    held_.erase(0, mark + end.size());
    state_ = State::Text;
    strips_ = true;
  } else {
    held_.erase(0, at_end ? text.size() : told.size());
  }
  return ends;
}

bool ReasoningParser::read_header(AnswerParts& parts, bool at_end) {
  const size_t end = held_.find(kMessage);
  const bool is_whole = end != std::string::npos;
  const size_t most = kHeaderBytesMax + (is_whole ? 0 : kMessage.size() - 1);  // of which some may be the mark's
  if (may_be_header(held_) && std::min(end, held_.size()) <= most) {
    if (is_whole) {
      const std::string header = held_.substr(0, end);
      held_.erase(0, end + kMessage.size());
      open_message(header, parts);
    } else if (at_end) {
      held_.clear();  // half of one says nothing
    }
    return is_whole;
  }
  state_ = State::Text;
  for (const std::string_view mark : {kStart, kChannel}) {
    if (held_.starts_with(mark)) held_.erase(0, mark.size());
  }
  return true;
}

void ReasoningParser::open_message(std::string_view header, AnswerParts& parts) {
  const std::string_view function = word_behind(header, kFunction);
  if (std::ranges::find(functions_, function) != functions_.end()) {
    state_ = State::Call;
    arguments_.clear();
    parts.add_call({.name = std::string(function), .arguments = ""});
    return;
  }
  const bool reasons = word_behind(header, kChannel) == "analysis";
  state_ = reasons ? State::Reasoning : State::Text;
  separates_ = reasons ? told_reasoning_ : told_text_;
}

bool ReasoningParser::read_message(AnswerParts& parts, bool at_end) {
  const std::string_view text = held_;
  size_t end = text.npos;
  std::string_view found;
  for (const std::string_view mark : kMessageEnds) {
    if (const size_t at = text.find(mark); at < end) {
      end = at;
      found = mark;
    }
  }
  const size_t known = !found.empty() ? end : at_end ? text.size() : partial_mark(text, kMessageEnds);
  add(text.substr(0, known), parts);
  held_.erase(0, known);
  if (found.empty()) return false;
  if (state_ == State::Call) close_call(parts);
  state_ = State::Begin;
  if (found != kChannel && found != kStart) held_.erase(0, found.size());  // those two begin the next header
  return true;
}

void ReasoningParser::add(std::string_view text, AnswerParts& parts) {
  if (text.empty()) return;
  if (state_ == State::Call) {
    arguments_ += text;
    return parts.add_call({.name = "", .arguments = std::string(text)});
  }
  const bool reasons = state_ == State::Reasoning;
  const std::string line = std::exchange(separates_, false) ? "\n" : "";
  (reasons ? told_reasoning_ : told_text_) = true;
  if (reasons) {
    parts.add_reasoning(line + std::string(text));
  } else {
    parts.add_text(line + std::string(text));
  }
}

// What is no JSON object was cut.
void ReasoningParser::close_call(AnswerParts& parts) {
  if (parse_json(arguments_).is_object()) parts.add_call({.name = "", .arguments = "", .ends = true});
  state_ = State::Begin;
}

void ReasoningCounter::add(std::string_view token) {
  const bool was = parser_.is_reasoning();
  static_cast<void>(parser_.push(token));
  ++undecided_;
  if (was || parser_.is_reasoning()) count_ += undecided_;
  if (!parser_.is_undecided() || was) undecided_ = 0;
}

}  // namespace inflight::server
