// SPDX-License-Identifier: Apache-2.0
#include "server/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/api_error.h"

namespace inflight::server {
namespace {

constexpr size_t kEventBytesMax = 64 << 10;  // made at a time, then the client must have taken them
constexpr size_t kWholeBytesMax = 64 << 10;  // written at once, on the network thread; what is longer by a worker

constexpr std::chrono::seconds kSilenceMax{15};

// A user's number is a hash of the name (FNV-1a), so that it needs no table and is the same in every process.
uint32_t tenant_of(const GenerationRequest& request, uint32_t key_tenant) {
  constexpr uint32_t kUserTenants = 4095;  // all but 0, which has no name
  if (key_tenant != 0) {
    if (request.tenant >= 0 && static_cast<uint32_t>(request.tenant) != key_tenant) {
      throw ApiError(400, "'tenant' is not allowed here: the API key says who is asking", "tenant");
    }
    return key_tenant;
  }
  if (request.tenant >= 0) return static_cast<uint32_t>(request.tenant);
  if (request.user.empty()) return 0;
  uint32_t hash = 2166136261U;
  for (const char byte : request.user) hash = (hash ^ static_cast<unsigned char>(byte)) * 16777619U;
  return 1 + hash % kUserTenants;
}

RequestOptions options_for(const GenerationRequest& request, const Prompt& prompt, uint32_t tenant) {
  RequestOptions options;
  options.params = request.params;
  options.params.tenant = tenant;
  if (!request.cache_salt.empty()) options.params.cache_salt = request.cache_salt.c_str();
  options.prompt = prompt.text;
  options.prompt_ids = prompt.ids;
  options.stop_token_ids = request.stop_token_ids;
  options.stop = request.stop;
  options.bad_words = request.bad_words;
  options.dry_sequence_breakers = request.dry_sequence_breakers;
  options.logit_bias = request.logit_bias;
  options.lora_name = request.lora_name;
  options.prediction = request.prediction;
  options.structured_json = request.structured_json;
  options.structured_regex = request.structured_regex;
  options.structured_grammar = request.structured_grammar;
  options.structured_choice = request.structured_choice;
  options.structured_tools = request.structured_tools;
  return options;
}

std::unique_ptr<AnswerFormat> format_for(unsigned endpoint, const GenerationRequest& request, AnswerInfo info) {
  if (endpoint == kCompletions) return completion_format(request, std::move(info));
  if (endpoint == kEmbeddings) return embedding_format(request, std::move(info));
  if (endpoint == kRerank) return rerank_format(request, std::move(info));
  if (endpoint == kMessages) return messages_format(request, std::move(info));
  if (endpoint == kChat) return chat_format(request, std::move(info));
  return response_format(request, std::move(info));
}

// What a part of a whole answer is in JSON, about.
size_t json_bytes(const AnswerDelta& delta) {
  constexpr size_t kTokenBytes = 64, kNumberBytes = 12;
  size_t tokens = 0;
  for (const std::vector<TokenText>* const list : {&delta.tokens, &delta.prompt}) {
    for (const TokenText& token : *list) tokens += 1 + token.top.size();
  }
  return delta.text.size() + tokens * kTokenBytes + (delta.token_ids.size() + delta.embedding.size()) * kNumberBytes;
}

// A refused request with the name that the client has for what it is about.   index: of the prompt that was looked at.
ApiError refusal(const Failure& failure, unsigned endpoint, size_t index, size_t prompt_count) {
  const std::string_view field = failure.field();
  if (field != "prompt" && field != "prompt_length") return {400, failure.what(), std::string(field)};
  const std::string code = field == "prompt" ? "" : "context_length_exceeded";
  if (prompt_count == 1) return {400, failure.what(), content_field(endpoint), code};
  const std::string place = fmt::format("{}[{}]", content_field(endpoint), index);
  return {400, fmt::format("'{}': {}", place, failure.what()), place, code};
}

}  // namespace

SubmittedRequest submit_request(Engine& engine, std::unique_ptr<GenerationRequest> request, unsigned endpoint,
                                AnswerInfo info, uint32_t key_tenant) {
  const uint32_t tenant = tenant_of(*request, key_tenant);
  const bool suffixed = request->suffix.has_value();
  size_t prompt_count = 1;
  size_t index = 0;
  try {
    if ((endpoint & kConversations) != 0) {
      request->prompts.push_back({engine.chat_render(chat_render_json(*request)), {}});
      if (info.reasoning.kind != ReasoningMarks::Kind::None) request->params.reasoning_apart = 1;
    }
    SubmittedRequest submitted{std::move(request), endpoint, std::move(info), {}};
    GenerationRequest& wanted = *submitted.request;
    if (wanted.params.reasoning_apart != 0) {
      submitted.reasoning.emplace(reasoning_parser(wanted, submitted.info.reasoning));
    }
    const inflight_request_params_t& params = wanted.params;
    // Who wants tokens' texts is refused here where there is no vocabulary.
    if (wanted.logprobs || params.prompt_logprobs >= 0) static_cast<void>(engine.token_text(0));
    prompt_count = wanted.prompts.size();
    for (; index < prompt_count; ++index) {
      Prompt& prompt = wanted.prompts[index];
      const bool as_text = prompt.ids.empty();
      const bool told = params.prompt_logprobs >= 0 || wanted.return_token_ids;
      if (endpoint == kRerank) {
        prompt.ids = engine.rerank_tokenize(wanted.query, prompt.text);
      } else if (wanted.suffix) {
        constexpr bool kParseSpecial = false;  // a program may well have a text like "<|im_end|>"
        prompt.ids = engine.infill_tokenize(prompt.text, *wanted.suffix, params.add_special_tokens != 0, kParseSpecial);
      } else if (told && as_text) {
        prompt.ids = engine.tokenize(prompt.text, params.add_special_tokens != 0, params.parse_special_tokens != 0);
      }
      if (wanted.return_token_ids) submitted.info.prompt_ids.push_back(prompt.ids);
      submitted.streams.push_back(engine.submit(options_for(wanted, prompt, tenant)));
      if (wanted.echo) {  // of what was taken: a prompt that is too long is not copied `n` times
        const std::string echo = as_text ? prompt.text : engine.detokenize(prompt.ids);
        submitted.info.echoes.insert(submitted.info.echoes.end(), static_cast<size_t>(params.n), echo);
      }
    }
    submitted.info.choice_count = static_cast<int32_t>(submitted.streams.size()) * params.n;
    return submitted;
  } catch (const Failure& failure) {
    if (failure.status() == INFLIGHT_ERROR_NOT_FOUND) {  // an adapter that was unloaded meanwhile
      throw ApiError(404, failure.what(), "model", "model_not_found");
    }
    if (failure.status() == INFLIGHT_ERROR_UNSUPPORTED && suffixed) throw ApiError(400, failure.what(), "suffix");
    if (failure.status() == INFLIGHT_ERROR_INVALID_ARGUMENT) throw refusal(failure, endpoint, index, prompt_count);
    throw;
  }
}

ApiError event_error(const Event& event, const std::string& structured_by) {
  if (event.finish_reason == INFLIGHT_FINISH_ABORT) {  // nobody here asks for that but the engine's clock
    return {504, fmt::format("the request's time is over after {} tokens", event.output_token_count), "", "timeout"};
  }
  switch (event.error_status) {
    case INFLIGHT_ERROR_INVALID_ARGUMENT:
    case INFLIGHT_ERROR_UNSUPPORTED:
      return {400, event.error, structured_by, "invalid_grammar"};
    case INFLIGHT_ERROR_REJECTED:
      return {429, event.error, "", "rejected_by_policy"};
    case INFLIGHT_ERROR_OUT_OF_MEMORY:
      return {503, event.error, "", "out_of_memory", 1};
    default:
      return {500, event.error, "", "engine_failed"};
  }
}

Generation::Generation(Engine& engine, Exchange& exchange, ReadyQueue& queue, SubmittedRequest submitted,
                       AnswerLater answer_later)
    : engine_(engine),
      exchange_(exchange),
      request_(std::move(submitted.request)),
      format_(format_for(submitted.endpoint, *request_, std::move(submitted.info))),
      answer_later_(std::move(answer_later)),
      waker_{queue, exchange.id()},
      last_write_(std::chrono::steady_clock::now()) {
  const int32_t n = request_->params.n;
  sources_.reserve(submitted.streams.size());
  std::vector<ReasoningCounter> counters;
  if (submitted.reasoning) counters.assign(static_cast<size_t>(n), *submitted.reasoning);
  for (Stream& stream : submitted.streams) {
    sources_.push_back({.stream = std::move(stream),
                        .open = n,
                        .usage = std::vector<AnswerUsage>(static_cast<size_t>(n)),
                        .reasoning = counters});
  }
  const auto wake = [](void* context) {
    const Waker& waker = *static_cast<const Waker*>(context);
    waker.queue.push(waker.exchange);
  };
  for (Source& source : sources_) source.stream.set_notify(wake, &waker_);
}

Generation::~Generation() = default;

void Generation::proceed() {
  if (done_) return;
  std::string out;
  for (size_t i = 0; i < sources_.size() && out.size() < kEventBytesMax; ++i) {
    if (!pump(i, out)) return;
  }
  if (std::all_of(sources_.begin(), sources_.end(), [](const Source& source) { return source.open == 0; })) {
    finish(out);
  } else if (!out.empty()) {
    exchange_.write(out);
    last_write_ = std::chrono::steady_clock::now();
  }
}

bool Generation::pump(size_t index, std::string& out) {
  Source& source = sources_[index];
  while (source.open > 0) {
    if (request_->stream && (!exchange_.ready() || out.size() >= kEventBytesMax)) return true;
    std::optional<Event> event = source.stream.next(std::chrono::milliseconds(0));
    if (!event) return true;
    source.usage[static_cast<size_t>(event->index)] = usage_of(source, *event);
    const bool ends = event->finish_reason != INFLIGHT_FINISH_NONE;
    if (ends) --source.open;
    if (event->finish_reason == INFLIGHT_FINISH_ERROR || event->finish_reason == INFLIGHT_FINISH_ABORT) {
      fail(event_error(*event, request_->structured_by), out);
      return false;
    }
    if (request_->stream) begin(*event, out);
    const AnswerDelta delta = delta_of(index, *event);
    if (!request_->stream) {
      whole_bytes_ += json_bytes(delta);
      format_->collect(delta);
    } else if (!delta.text.empty() || !delta.tokens.empty() || !delta.token_ids.empty() || ends) {
      format_->add(delta, out);
    }
  }
  return true;
}

AnswerUsage Generation::usage_of(Source& source, const Event& event) const {
  AnswerUsage usage{.prompt_tokens = event.prompt_token_count,
                    .cached_tokens = event.cached_token_count,
                    .output_tokens = event.output_token_count,
                    .draft_tokens = event.draft_token_count,
                    .accepted_tokens = event.accepted_token_count};
  if (source.reasoning.empty()) return usage;
  ReasoningCounter& counter = source.reasoning[static_cast<size_t>(event.index)];
  for (const int32_t id : event.token_ids) counter.add(engine_.token_text(id));
  usage.reasoning_tokens = counter.count();
  return usage;
}

AnswerDelta Generation::delta_of(size_t index, Event& event) {
  AnswerDelta delta{.choice = static_cast<int32_t>(index) * request_->params.n + event.index,
                    .text = std::move(event.text),
                    .finish_reason = event.finish_reason,
                    .usage = sources_[index].usage[static_cast<size_t>(event.index)]};
  delta.embedding = std::move(event.embedding);
  if (!event.stop_text.empty()) delta.stop_reason = event.stop_text;
  const bool asked_for = std::find(request_->stop_token_ids.begin(), request_->stop_token_ids.end(),
                                   event.stop_token_id) != request_->stop_token_ids.end();
  if (asked_for) delta.stop_reason = event.stop_token_id;
  if (request_->return_token_ids) delta.token_ids = event.token_ids;
  if (request_->params.prompt_logprobs >= 0 && event.index == 0) delta.prompt = prompt_tokens(index, event);
  if (!request_->logprobs) return delta;
  size_t count = event.token_ids.size();
  const bool has_text = event.stop_token_id < 0 || request_->params.include_stop_str_in_output != 0;  // the last one
  if (!has_text && count > 0) --count;
  for (size_t i = 0; i < count; ++i) {
    delta.tokens.push_back(token_text(event.token_ids[i], event.logprobs[i], event.top_logprobs, i));
  }
  return delta;
}

// tops[i]: the most likely tokens in the place of this one, where they are known.
TokenText Generation::token_text(int32_t id, float logprob, const std::vector<Event::Top>& tops, size_t i) const {
  TokenText token{.id = id, .text = engine_.token_text(id), .logprob = logprob};
  if (i >= tops.size()) return token;
  for (const inflight_token_logprob_t& top : tops[i]) {
    token.top.push_back({.id = top.token_id, .text = engine_.token_text(top.token_id), .logprob = top.logprob});
  }
  return token;
}

std::vector<TokenText> Generation::prompt_tokens(size_t index, const Event& event) {
  const std::vector<int32_t>& ids = request_->prompts[index].ids;
  size_t& told = sources_[index].told_prompt_tokens;
  std::vector<TokenText> tokens;
  if (told == 0) {
    tokens.push_back({.id = ids[0], .text = engine_.token_text(ids[0])});
    told = 1;
  }
  for (size_t i = 0; i < event.prompt_logprobs.size(); ++i) {
    tokens.push_back(token_text(ids[told++], event.prompt_logprobs[i], event.prompt_top_logprobs, i));
  }
  return tokens;
}

AnswerUsage Generation::usage() const {
  AnswerUsage total;
  for (const Source& source : sources_) {
    total.prompt_tokens += source.usage[0].prompt_tokens;  // the answers to a prompt share it
    total.cached_tokens += source.usage[0].cached_tokens;
    for (const AnswerUsage& usage : source.usage) {
      total.output_tokens += usage.output_tokens;
      total.draft_tokens += usage.draft_tokens;
      total.accepted_tokens += usage.accepted_tokens;
      if (usage.reasoning_tokens) total.reasoning_tokens = total.reasoning_tokens.value_or(0) + *usage.reasoning_tokens;
    }
  }
  return total;
}

void Generation::finish(std::string& out) {
  done_ = true;
  if (request_->stream) {
    format_->end(usage(), out);
    exchange_.write(out);
    exchange_.end_stream();
  } else if (whole_bytes_ <= kWholeBytesMax) {
    exchange_.respond({.body = format_->whole(usage())});
  } else {
    answer_later_(exchange_.id(), whole_bytes_, {std::move(request_), std::move(format_), usage()});
  }
}

// Only when there is something to say, so that what is wrong with a grammar can still be an error answer.
void Generation::begin_stream() {
  if (!std::exchange(begun_, true)) exchange_.begin_stream("text/event-stream; charset=utf-8");
}

void Generation::begin(const Event& event, std::string& out) {
  begin_stream();
  if (std::exchange(answer_begun_, true)) return;
  format_->begin({.prompt_tokens = event.prompt_token_count, .cached_tokens = event.cached_token_count}, out);
}

void Generation::fail(const ApiError& error) {
  std::string out;
  if (!done_ || !begun_) fail(error, out);  // a whole answer that a worker still writes comes too late then
}

void Generation::fail(const ApiError& error, std::string& out) {
  done_ = true;
  exchange_.ended_by(error);
  for (Source& source : sources_) source.stream.cancel();
  if (!begun_) return exchange_.respond(error.response(exchange_.path()));
  format_->fail(error.body(exchange_.path()), out);
  exchange_.write(out);
  exchange_.end_stream();
}

void Generation::on_tick(std::chrono::steady_clock::time_point now) {
  if (done_ || !request_->stream || now - last_write_ < kSilenceMax || !exchange_.ready()) return;
  begin_stream();
  exchange_.write(": waiting\n\n");
  last_write_ = now;
}

}  // namespace inflight::server
