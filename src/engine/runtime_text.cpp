// SPDX-License-Identifier: Apache-2.0
// The runtime's conversations: the chat template, and the filters that hold answers to a form.
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/math.h"
#include "engine/either_filter.h"
#include "engine/reasoning_filter.h"
#include "engine/runtime.h"
#include "engine/sleeping_filter.h"
#include "text/grammar_tools.h"

namespace inflight {
namespace {

// SOURCE: Qwen3-Reranker's model card.
constexpr std::string_view kRerankChat =
    R"({"messages": [{"role": "system", "content": "Judge whether the Document meets the requirements based on the )"
    R"(Query and the Instruct provided. Note that the answer can only be \"yes\" or \"no\"."}, )"
    R"({"role": "user", "content": "<Instruct>: Given a web search query, retrieve relevant passages that answer the )"
    R"(query\n<Query>: {query}\n<Document>: {document}"}], )"
    R"("add_generation_prompt": true, "enable_thinking": false, "thinking": false})";

}  // namespace

// A model file's template that cannot be parsed is told to those who want it.
void Runtime::read_chat_template(const std::string& from_file) {
  const std::string& source = options_.chat_template.empty() ? from_file : options_.chat_template;
  if (source.empty() || tokenizer_ == nullptr) return;
  try {
    chat_template_.emplace(source);
    chat_template_text_ = source;
  } catch (const Error& error) {
    if (!options_.chat_template.empty()) throw;
    chat_template_error_ = error.what();
    return;
  }
  const Vocabulary& vocabulary = tokenizer_->vocabulary();
  const ChatSettings settings = chat_settings(vocabulary, 0);
  tool_format_ = find_tool_call_format(*chat_template_, settings);
  reasoning_ = find_reasoning_format(*chat_template_, settings, vocabulary);
  if (is_harmony()) tool_format_ = harmony_tool_calls(std::move(tool_format_));
  tool_tokens_ = tool_call_tokens(tool_format_, vocabulary);
  reasoning_tokens_ = inflight::reasoning_tokens(reasoning_, vocabulary);
}

void Runtime::read_classifier(const LoadedModel& model) {
  const std::string& tokens = options_.classifier_from_token;
  if (tokens.empty()) {
    classifier_ = Classifier::of_file(model);
  } else {
    classifier_ = Classifier::of_tokens(model, require_tokenizer(), tokens);
  }
  rerank_template_ = model.vocabulary.rerank_template;
}

const Classifier& Runtime::require_classifier() const {
  if (!classifier_) {
    fail(ErrorCode::Unsupported,
         "{} has no classifier (cls.output.weight): rerankers have one, chat models can do with classifier_from_token",
         file_name());
  }
  return *classifier_;
}

std::vector<TokenId> Runtime::rerank_prompt(std::string_view query, std::string_view document) {
  static_cast<void>(require_classifier());
  const Tokenizer& tokenizer = require_tokenizer();
  std::call_once(rerank_template_made_, [this] {
    if (rerank_template_.empty()) rerank_template_ = render_chat(kRerankChat);
    for (const std::string_view name : {"{query}", "{document}"}) {
      if (rerank_template_.find(name) == std::string::npos) {
        fail(ErrorCode::Unsupported, "the template for rerankers of {} has no {}", file_name(), name);
      }
    }
  });
  return tokenizer.encode_template(rerank_template_, {{{"query", query}, {"document", document}}});
}

std::string Runtime::render_chat(std::string_view request_json) const {
  if (!chat_template_error_.empty()) throw Error(ErrorCode::InvalidArgument, chat_template_error_);
  if (!chat_template_) {
    fail(ErrorCode::Unsupported, "{} has no chat template: give the whole prompt as text", file_name());
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  const ChatSettings settings = chat_settings(require_tokenizer().vocabulary(), seconds);
  return chat_template_->render(adapt_reasoning(reasoning_, adapt_to_format(tool_format_, request_json)), settings);
}

AnswerBegin Runtime::answer_begin(std::string_view prompt, std::span<const TokenId> prompt_ids) const {
  if (reasoning_.kind == ReasoningFormat::Kind::None) return AnswerBegin::Text;
  if (prompt_ids.empty()) return inflight::answer_begin(reasoning_, prompt);
  const Vocabulary& vocabulary = require_tokenizer().vocabulary();
  std::string text;
  for (size_t i = prompt_ids.size(); i > 0 && text.size() < kPromptEndBytes; --i) {
    if (vocabulary.contains(prompt_ids[i - 1])) text.insert(0, vocabulary.bytes(prompt_ids[i - 1]));
  }
  return inflight::answer_begin(reasoning_, text);
}

std::unique_ptr<GrammarFilter> Runtime::make_filter(GrammarKind kind, const std::string& text,
                                                    const std::stop_token& stop) {
  const Tokenizer& tokenizer = require_tokenizer();
  std::call_once(grammars_made_, [&] {
    grammars_ = std::make_unique<GrammarStore>(tokenizer.vocabulary(), engine_->options().end_tokens);
  });
  std::unique_ptr<GrammarMatcher> matcher = grammars_->matcher(kind, text, stop);
  std::vector<uint32_t> first(static_cast<size_t>(div_ceil(spec_.vocabulary_size, 32)));
  matcher->allow(first);  // learns the tokens that may begin here, where nobody waits for it
  return std::make_unique<GrammarFilter>(std::move(matcher), tokenizer);
}

std::unique_ptr<TokenFilter> Runtime::behind_reasoning(std::vector<Grammar> grammars, AnswerBegin begin,
                                                       const std::stop_token& stop) {
  const Tokenizer& tokenizer = require_tokenizer();
  const auto tokens_of = [&](const std::string& text) { return tokenizer.encode(text, {.add_special = false}); };
  const bool harmony = is_harmony();
  ReasoningFilter::Parts parts{.end_mark = harmony ? std::string(harmony::kEnd) : reasoning_.end,
                               .not_within = engine_->options().end_tokens};
  for (const TokenId mark : reasoning_tokens_) {
    if (tokenizer.vocabulary().bytes(mark) != parts.end_mark) parts.not_within.push_back(mark);
  }
  const bool undecided = begin == AnswerBegin::Undecided;
  if (undecided) parts.begin.push_back({tokens_of(harmony ? std::string(harmony::kAnalysis) : reasoning_.begin)});
  for (const Grammar& grammar : grammars) {
    const std::string header(harmony ? grammar.harmony_header : "");
    const std::string between = harmony ? std::string(harmony::kAnswer) : reasoning_.behind;
    auto filter = make_filter(grammar.kind, grammar.text, stop);
    if (undecided) parts.begin.push_back({tokens_of(header), filter->clone()});
    parts.behind.push_back({tokens_of(between + header), std::move(filter)});
  }
  return std::make_unique<ReasoningFilter>(std::move(parts), tokenizer.vocabulary());
}

FilterSource Runtime::grammar_filter(GrammarKind kind, std::string text, AnswerBegin begin) {
  static_cast<void>(require_tokenizer());
  return [this, grammar = Grammar{kind, std::move(text), harmony::kFinal}, begin](const std::stop_token& stop) {
    return begin == AnswerBegin::Text ? make_filter(grammar.kind, grammar.text, stop)
                                      : behind_reasoning({grammar}, begin, stop);
  };
}

Runtime::Grammar Runtime::call_grammar(const ToolRequest& request, AnswerBegin begin) const {
  const bool has_header = is_harmony() && begin != AnswerBegin::Text;
  const CallsBegin calls_begin = has_header ? CallsBegin::BehindTrigger : CallsBegin::WithAnswer;
  return {GrammarKind::ToolCalls,
          tool_grammar_text(request, tool_format_, require_tokenizer().vocabulary(), calls_begin), harmony::kCall};
}

FilterSource Runtime::tools_or_grammar_filter(std::string_view request_json, GrammarKind kind, std::string text,
                                              AnswerBegin begin) {
  const ToolRequest request = read_tool_request(request_json);
  if (request.forced) {
    fail(ErrorCode::InvalidArgument,
         "structured_tools asks for a call, and another structured_ field for something else");
  }
  return [this, grammar = Grammar{kind, std::move(text), harmony::kFinal}, calls = call_grammar(request, begin),
          begin](const std::stop_token& stop) -> std::unique_ptr<TokenFilter> {
    if (begin != AnswerBegin::Text) return behind_reasoning({grammar, calls}, begin, stop);
    return std::make_unique<EitherFilter>(make_filter(grammar.kind, grammar.text, stop),
                                          make_filter(calls.kind, calls.text, stop));
  };
}

Runtime::ToolFilter Runtime::tool_filter(std::string_view request_json, AnswerBegin begin) {
  const Vocabulary& vocabulary = require_tokenizer().vocabulary();
  const ToolRequest request = read_tool_request(request_json);
  if (request.forced) {
    return {[this, calls = call_grammar(request, begin),
             begin](const std::stop_token& stop) -> std::unique_ptr<TokenFilter> {
              if (begin != AnswerBegin::Text) return behind_reasoning({calls}, begin, stop);
              return make_filter(calls.kind, calls.text, stop);
            },
            false};
  }
  std::optional<ReasoningWatch> watch;  // Harmony's marks of calls are no text that reasoning could have
  if (!is_harmony() && begin != AnswerBegin::Text) watch.emplace(reasoning_.begin, reasoning_.end, begin);
  std::string text = tool_grammar_text(request, tool_format_, vocabulary, CallsBegin::BehindTrigger);
  return {[this, &vocabulary, text = std::move(text), watch = std::move(watch)](const std::stop_token& stop) {
            return std::make_unique<SleepingFilter>(make_filter(GrammarKind::ToolCalls, text, stop), vocabulary,
                                                    tool_call_trigger(tool_format_), tool_format_.begin_mark().empty(),
                                                    watch);
          },
          true};
}

}  // namespace inflight
