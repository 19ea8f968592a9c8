// SPDX-License-Identifier: Apache-2.0
#include "server/tool_call_parser.h"

#include <algorithm>
#include <utility>

namespace inflight::server {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

}  // namespace

ToolCallParser::ToolCallParser(const Json& tools, const CallMarks& own, bool forced)
    : marks_{{"<tool_call>", "</tool_call>"}, {"[TOOL_CALLS]"}, {"<|python_tag|>"}}, forced_(forced) {
  int64_t steps = kKindStepsMax;
  for (const Json& tool : tools) {
    functions_.push_back({tool["function"]["name"].get<std::string>()});
    if (own.elements)
      functions_.back().parameters = parameter_kinds(tool["function"].value("parameters", Json()), steps);
  }
  if (own.begin.empty()) return;
  const auto known = std::ranges::find(marks_, own.begin, &CallMarks::begin);
  if (known == marks_.end()) {
    marks_.push_back(own);
  } else if (own.has_plain_name()) {
    *known = own;
  }
}

// Where the longest end of what is held begins that begins a mark.
size_t ToolCallParser::mark_start() const {
  size_t longest = 0;
  for (const CallMarks& mark : marks_) {
    for (size_t length = std::min(mark.begin.size() - 1, held_.size()); length > longest; --length) {
      if (held_.ends_with(std::string_view(mark.begin).substr(0, length))) longest = length;
    }
  }
  return held_.size() - longest;
}

AnswerParts ToolCallParser::push(std::string_view text) {
  AnswerParts found;
  if (functions_.empty()) {
    found.add_text(text);
    return found;
  }
  held_ += text;
  step(found, false);
  return found;
}

AnswerParts ToolCallParser::finish() {
  AnswerParts found;
  step(found, true);
  return found;
}

void ToolCallParser::step(AnswerParts& found, bool at_end) {
  for (bool more = true; more;) {
    switch (state_) {
      case State::Start:
        more = scan_start(at_end);
        break;
      case State::Text:
        more = scan_text(found, at_end);
        break;
      case State::Calls:
        more = scan_calls(found, at_end);
        break;
    }
  }
}

// An answer that begins with a bracket may be a call without marks.
bool ToolCallParser::scan_start(bool at_end) {
  const size_t first = held_.find_first_not_of(kSpace);
  if (first == std::string::npos && !at_end) return false;
  const std::string_view text = first == std::string::npos ? "" : std::string_view(held_).substr(first);
  const bool marked = std::ranges::any_of(marks_, [&](const CallMarks& mark) { return text.starts_with(mark.begin); });
  const bool may_be_marked =
      std::ranges::any_of(marks_, [&](const CallMarks& mark) { return mark.begin.starts_with(text); });
  if (!marked && may_be_marked && !at_end) return false;
  state_ = State::Text;
  if (!marked && (text.starts_with('{') || text.starts_with('['))) begin_calls({});
  return true;
}

bool ToolCallParser::scan_text(AnswerParts& found, bool at_end) {
  if (after_call_) {  // what separates calls is not shown
    held_.erase(0, held_.find_first_not_of(kSpace));
    if (held_.empty()) return false;
    after_call_ = false;
  }
  size_t begin = std::string::npos;
  const CallMarks* found_mark = nullptr;
  for (const CallMarks& mark : marks_) {
    if (const size_t at = held_.find(mark.begin); at < begin) {
      begin = at;
      found_mark = &mark;
    }
  }
  if (found_mark == nullptr) {
    const size_t end = at_end && !forced_ ? held_.size() : mark_start();
    found.add_text(std::string_view(held_).substr(0, end));
    held_.erase(0, end);
    return false;
  }
  found.add_text(std::string_view(held_).substr(0, begin));
  held_.erase(0, begin + found_mark->begin.size());
  begin_calls(*found_mark);
  return true;
}

void ToolCallParser::begin_calls(const CallMarks& marks) {
  state_ = State::Calls;
  marker_ = marks.begin;
  calls_ = marks;
  scanned_ = 0;
  in_list_ = closed_ = told_ = false;
  call_count_ = 0;
  reader_.reset();
  if (calls_.has_plain_name()) begin_plain_name(calls_.open);
}

void ToolCallParser::begin_plain_name(const MarkTexts& open) { reader_.emplace(functions_, open, calls_); }

bool ToolCallParser::scan_calls(AnswerParts& found, bool at_end) {
  while (scanned_ < held_.size()) {
    const auto between =
        calls_.has_plain_name() ? &ToolCallParser::between_plain_names : &ToolCallParser::between_calls;
    switch (reader_ ? read_call(found) : (this->*between)(at_end)) {
      case Step::Next:
        break;
      case Step::Wait:
        return false;
      case Step::NoCall:
        give_up(found);
        return true;
    }
    if (state_ != State::Calls) return true;
  }
  if (reader_ && reader_->begun()) tell(found, false);
  // A whole call without its end tag is one; half of one that was not told of is none.
  if (at_end && (reader_ ? !told_ : call_count_ == 0)) {
    if (forced_) return false;
    give_up(found);
    return true;
  }
  if (call_count_ > 0 && !reader_) {
    held_.clear();
    scanned_ = 0;
  }
  return false;
}

ToolCallParser::Step ToolCallParser::read_call(AnswerParts& found) {
  const ToolCallReader::Status status = reader_->read(held_[scanned_++]);
  if (status == ToolCallReader::Status::NoCall) return Step::NoCall;
  if (status == ToolCallReader::Status::Ended) tell(found, true);
  return Step::Next;
}

// Gives what is new of the call being read.
void ToolCallParser::tell(AnswerParts& found, bool ends) {
  ToolCallDelta delta{.name = told_ ? "" : reader_->name(), .arguments = reader_->take_arguments(), .ends = ends};
  if (!told_ || !delta.arguments.empty() || ends) found.add_call(std::move(delta));
  told_ = !ends;
  held_.erase(0, scanned_);
  scanned_ = 0;
  marker_.clear();
  if (!ends) return;
  ++call_count_;
  reader_.reset();
}

// Before, between and behind calls: brackets of a list, what separates them, the end tag.
ToolCallParser::Step ToolCallParser::between_calls(bool at_end) {
  const char byte = held_[scanned_];
  if (!calls_.end.empty() && byte == calls_.end[0]) {
    const std::string_view rest = std::string_view(held_).substr(scanned_);
    const bool half = rest.size() < calls_.end.size() && calls_.end.starts_with(rest);
    if (half && !at_end) return Step::Wait;
    if ((!half && !rest.starts_with(calls_.end)) || call_count_ == 0) return Step::NoCall;
    end_calls(scanned_ + calls_.end.size());
    return Step::Next;
  }
  const bool separates = (byte == ',' || byte == ';') && call_count_ > 0;
  const bool opens = byte == '[' && !in_list_ && call_count_ == 0;
  const bool closes = byte == ']' && in_list_ && call_count_ > 0 && !closed_;
  if (byte == '{' && !closed_) {
    reader_.emplace(functions_);
    return Step::Next;  // which reads it
  }
  if (!separates && !opens && !closes && kSpace.find(byte) == kSpace.npos) return Step::NoCall;
  in_list_ = in_list_ || opens;
  closed_ = closed_ || closes;
  ++scanned_;
  return Step::Next;
}

// Behind a call: what separates it from the next one, or the end mark.
ToolCallParser::Step ToolCallParser::between_plain_names(bool at_end) {
  using Kind = MarkMatch::Kind;
  const MarkMatch more = calls_.separator.empty() ? MarkMatch{Kind::No, 0} : match_mark(held_, calls_.separator);
  const MarkMatch end = match_mark(held_, {calls_.end});
  if (more.kind == Kind::Whole) {
    scanned_ = more.length;
    static const MarkTexts kNothing{""};
    begin_plain_name(kNothing);
    return Step::Next;
  }
  const bool half = more.kind == Kind::Half || end.kind == Kind::Half;
  if (half && !at_end) return Step::Wait;
  if (!half && end.kind == Kind::No) return Step::NoCall;
  end_calls(end.kind == Kind::Whole ? end.length : held_.size());
  return Step::Next;
}

void ToolCallParser::end_calls(size_t mark_length) {
  held_.erase(0, mark_length);
  state_ = State::Text;
  after_call_ = true;
}

// No call after all: the mark is text, and what stands behind it is looked at again, but for what separated it from a
// call before.
void ToolCallParser::give_up(AnswerParts& found) {
  state_ = State::Text;
  if (call_count_ > 0) held_.erase(0, std::min(held_.size(), held_.find_first_not_of(" \t\r\n,;]")));
  found.add_text(marker_);
  scanned_ = 0;
}

}  // namespace inflight::server
