// SPDX-License-Identifier: Apache-2.0
#include "sched/trace_format.h"

#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/limits.h"

namespace inflight {
namespace {

uint64_t zigzag(int64_t value) { return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63); }
int64_t unzigzag(uint64_t value) { return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1); }

// The host's part in a request's tokens, which are then read before the next plan: it draws them, says which may come,
// or does so when a filter has woken.
enum class HostPart : uint8_t { None, Filters, FiltersWhenAwake, Draws };
HostPart host_part(const Request& request) {
  if (request.sampling.needs_logits()) return HostPart::Draws;
  if (request.is_filtered_throughout()) return HostPart::Filters;
  return request.has_token_filter ? HostPart::FiltersWhenAwake : HostPart::None;
}

// Appends LEB128.
void append(std::vector<std::byte>& bytes, uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<std::byte>(value | 0x80));
  bytes.push_back(static_cast<std::byte>(value));
}

}  // namespace

TraceEncoder::TraceEncoder(Sink sink, bool with_inputs) : sink_(std::move(sink)), with_inputs_(with_inputs) {}

void TraceEncoder::put(uint64_t value) { append(record_, value); }
void TraceEncoder::put_signed(int64_t value) { put(zigzag(value)); }

void TraceEncoder::put_text(std::string_view text) {
  put(text.size());
  for (const char character : text) record_.push_back(static_cast<std::byte>(character));
}

void TraceEncoder::put_sequence(SequenceId sequence) {
  put_signed(static_cast<int64_t>(to_integer(sequence) - last_sequence_));
  last_sequence_ = to_integer(sequence);
}

void TraceEncoder::open(TraceRecordType type, TimeNs now) {
  record_.clear();
  record_.push_back(static_cast<std::byte>(type));
  put_signed(now - last_time_);
  last_time_ = now;
}

void TraceEncoder::close() {
  // Type, length of the rest, the rest.
  framed_.assign(1, record_.front());
  append(framed_, record_.size() - 1);
  framed_.insert(framed_.end(), record_.begin() + 1, record_.end());
  sink_(framed_);
}

void TraceEncoder::begin(std::string_view configuration_json) {
  open(TraceRecordType::Begin, last_time_);
  put(kTraceVersion);
  put_text(configuration_json);
  close();
}

void TraceEncoder::text_record(TraceRecordType type, std::string_view text, TimeNs now) {
  open(type, now);
  put_text(text);
  close();
}

void TraceEncoder::trial(std::string_view spec, TimeNs now) { text_record(TraceRecordType::Trial, spec, now); }

void TraceEncoder::policy(std::string_view spec, TimeNs now) { text_record(TraceRecordType::Policy, spec, now); }

void TraceEncoder::parameters(std::string_view spec, TimeNs now) {
  text_record(TraceRecordType::Parameters, spec, now);
}

void TraceEncoder::limits(std::string_view json, TimeNs now) { text_record(TraceRecordType::Limits, json, now); }

void TraceEncoder::hold(bool holds, TimeNs now) {
  open(TraceRecordType::Hold, now);
  put(holds ? 1 : 0);
  close();
}

void TraceEncoder::reset_prefix_cache(TimeNs now) {
  open(TraceRecordType::ResetPrefixCache, now);
  close();
}

void TraceEncoder::reset() {
  last_time_ = 0;
  last_sequence_ = 0;
  open(TraceRecordType::Reset, 0);
  close();
}

void TraceEncoder::on_add(SequenceId sequence, const Request& request, std::span<const TokenId> prompt, TimeNs now) {
  open(TraceRecordType::Add, now);
  put_sequence(sequence);
  put(to_integer(request.id));
  put_signed(request.arrival - now);
  put(prompt.size());
  put(with_inputs_ ? 1 : 0);
  if (with_inputs_) {
    for (const TokenId token : prompt) put(static_cast<uint64_t>(token));
  }
  put(static_cast<uint64_t>(request.sampling.max_tokens));
  put(request.sampling.ignore_eos ? 1 : 0);
  for (const auto* tokens : {&request.sampling.stop_token_ids, &request.end_tokens}) {
    put(tokens->size());
    for (const TokenId token : *tokens) put(static_cast<uint64_t>(token));
  }
  put_signed(request.priority);
  put(request.tenant);
  put(request.cache_salt);
  for (const TimeNs deadline : {request.ttft_deadline, request.e2e_deadline}) {
    put(deadline == kNoDeadline ? 0 : zigzag(deadline - now) + 1);
  }
  put(request.itl_target == kNoDeadline ? 0 : static_cast<uint64_t>(request.itl_target) + 1);
  put_signed(request.predicted_output_tokens);
  put(static_cast<uint64_t>(request.sampling.choice_count()));
  put((request.sampling.prompt_logprobs >= 0 ? 1U : 0U) | static_cast<uint64_t>(request.pooling) << 1U);
  put(request.adapter);
  put(with_inputs_ ? request.prediction.size() : 0);
  if (with_inputs_) {
    for (const TokenId token : request.prediction) put(static_cast<uint64_t>(token));
  }
  put(static_cast<uint64_t>(host_part(request)));
  close();
}

void TraceEncoder::on_cancel(SequenceId sequence, bool whole_request, FinishReason reason, TimeNs now) {
  open(TraceRecordType::Cancel, now);
  put_sequence(sequence);
  put(static_cast<uint64_t>(reason));
  put(whole_request ? 1 : 0);
  close();
}

void TraceEncoder::on_finish(SequenceId sequence, FinishReason reason, TimeNs now) {
  open(TraceRecordType::Finish, now);
  put_sequence(sequence);
  put(static_cast<uint64_t>(reason));
  close();
}

void TraceEncoder::on_plan(const PlanTrace& trace, TimeNs now) {
  open(TraceRecordType::Plan, now);
  put(trace.plan.step);
  put(trace.plan.entries.size());
  for (const BatchEntry& entry : trace.plan.entries) {
    put_sequence(entry.sequence);
    put(static_cast<uint64_t>(entry.computed_token_count));
    put(static_cast<uint64_t>(entry.scheduled_token_count));
  }
  put(trace.refusals.size());
  for (const Refusal& refusal : trace.refusals) {
    put_sequence(refusal.sequence);
    put(static_cast<uint64_t>(refusal.result));
    put(static_cast<uint64_t>(refusal.wanted_blocks));
    put(static_cast<uint64_t>(refusal.available_blocks));
  }
  put(static_cast<uint64_t>(trace.pass_end));
  put(trace.preemptions.size());
  for (const Preemption& preemption : trace.preemptions) {
    put_sequence(preemption.sequence);
    put(static_cast<uint64_t>(preemption.lost_tokens));
    put(static_cast<uint64_t>(preemption.swapped_blocks));
  }
  close();
}

void TraceEncoder::on_commit(const StepResult& result, TimeNs now) {
  open(TraceRecordType::Commit, now);
  put(result.step);
  put(static_cast<uint64_t>(result.duration));
  put(with_inputs_ ? result.sampled.size() : 0);
  if (with_inputs_) {
    for (const SampledToken& sampled : result.sampled) {
      put(sampled.valid ? static_cast<uint64_t>(sampled.token) + 1 : 0);
    }
  }
  for (size_t row = 0; row < result.sampled.size(); ++row) {
    if (result.sampled[row].filter_wakes) {
      put(row);
      put(0);
    }
    const std::span<const TokenId> forced = result.sampled[row].forced;
    const std::span<const TokenLogprob> further = result.sampled[row].further;
    if (forced.empty() && further.empty()) continue;
    put(row);
    put(further.size() + forced.size());
    put(further.size());
    for (const TokenLogprob& one : further) put(static_cast<uint64_t>(one.token));
    for (const TokenId token : forced) put(static_cast<uint64_t>(token));
  }
  close();
}

namespace {

// Some 70 years: what lies between two such times has room in TimeNs, too.
constexpr TimeNs kTimeMax = TimeNs{1} << 61;

class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::vector<TraceRecord> decode() {
    std::vector<TraceRecord> records;
    for (;;) {
      const auto frame = next_frame();
      if (!frame) return records;
      fields_ = frame->second;
      if (frame->first == static_cast<uint8_t>(TraceRecordType::Reset)) {
        time_ = 0;
        last_sequence_ = 0;
      }
      time_ = from_now(signed_number());
      TraceRecord record{.time = time_, .content = {}};
      if (read_content(frame->first, record)) records.push_back(std::move(record));
      ++index_;
    }
  }

 private:
  [[noreturn]] void corrupt(const char* what) const {
    fail(ErrorCode::CorruptFile, "trace record {}: {}", index_ + 1, what);
  }

  static std::optional<uint64_t> take_number(std::span<const std::byte>& bytes) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
      const auto byte = std::to_integer<uint64_t>(bytes.front());
      bytes = bytes.subspan(1);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  // The next whole record's type and fields; nullopt at the end or when the last one is cut off.
  std::optional<std::pair<uint8_t, std::span<const std::byte>>> next_frame() {
    auto bytes = rest_;
    if (bytes.empty()) return std::nullopt;
    const auto type = std::to_integer<uint8_t>(bytes.front());
    bytes = bytes.subspan(1);
    const auto length = take_number(bytes);
    if (!length || *length > bytes.size()) return std::nullopt;
    rest_ = bytes.subspan(*length);
    return std::pair(type, bytes.first(*length));
  }

  uint64_t number() {
    const auto value = take_number(fields_);
    if (!value) corrupt("ends in the middle of a field");
    return *value;
  }
  int64_t signed_number() { return unzigzag(number()); }
  TimeNs from_now(int64_t difference) const {
    TimeNs time = 0;
    const bool overflows = __builtin_add_overflow(time_, difference, &time);
    if (overflows || time > kTimeMax || time < -kTimeMax) corrupt("a time is out of range");
    return time;
  }

  template <typename T>
  T small(const char* what, uint64_t limit = std::numeric_limits<int32_t>::max()) {
    const uint64_t value = number();
    if (value > limit) corrupt(what);
    return static_cast<T>(value);
  }
  // A count of fields that follow: each takes at least a byte, so it cannot exceed what is left.
  size_t count() {
    const uint64_t value = number();
    if (value > fields_.size()) corrupt("a count is larger than the record");
    return static_cast<size_t>(value);
  }
  int32_t token_count(const char* what = "a token count is out of range") {
    return small<int32_t>(what, limits::kContextTokensMax);
  }
  SequenceId sequence() {
    last_sequence_ += static_cast<uint64_t>(signed_number());
    return static_cast<SequenceId>(last_sequence_);
  }
  std::string text() {
    const size_t length = count();
    const auto* characters = reinterpret_cast<const char*>(fields_.data());
    std::string result(characters, length);
    fields_ = fields_.subspan(length);
    return result;
  }
  FinishReason reason() { return static_cast<FinishReason>(small<int32_t>("unknown finish reason", 4)); }
  AdmissionResult admission_result() {
    return static_cast<AdmissionResult>(small<uint8_t>("unknown admission result", kAdmissionResultCount - 1));
  }
  std::vector<TokenId> tokens(size_t how_many) {
    std::vector<TokenId> result;
    for (size_t i = 0; i < how_many; ++i) result.push_back(small<TokenId>("a token id is out of range"));
    return result;
  }
  TimeNs deadline() {
    const uint64_t value = number();
    return value == 0 ? kNoDeadline : from_now(unzigzag(value - 1));
  }

  bool read_content(uint8_t type, TraceRecord& record) {
    switch (static_cast<TraceRecordType>(type)) {
      case TraceRecordType::Reset:
        return false;
      case TraceRecordType::Begin:
        if (number() != kTraceVersion) corrupt("is of another format version");
        record.content = TraceBegin{text()};
        return true;
      case TraceRecordType::Add:
        record.content = read_add();
        return true;
      case TraceRecordType::Cancel:
        record.content = read_cancel();
        return true;
      case TraceRecordType::Plan:
        record.content = read_plan();
        return true;
      case TraceRecordType::Commit:
        record.content = read_commit();
        return true;
      case TraceRecordType::Finish:
        record.content = TraceFinish{sequence(), reason()};
        return true;
      case TraceRecordType::Trial:
        record.content = TraceTrial{text()};
        return true;
      case TraceRecordType::Policy:
        record.content = TracePolicy{text()};
        return true;
      case TraceRecordType::Parameters:
        record.content = TraceParameters{text()};
        return true;
      case TraceRecordType::Limits:
        record.content = TraceLimits{text()};
        return true;
      case TraceRecordType::Hold:
        record.content = TraceHold{number() != 0};
        return true;
      case TraceRecordType::ResetPrefixCache:
        record.content = TraceResetPrefixCache{};
        return true;
    }
    return false;
  }

  TraceAdd read_add() {
    TraceAdd add;
    add.sequence = sequence();
    Request& request = add.request;
    request.id = static_cast<RequestId>(number());
    request.arrival = from_now(signed_number());
    add.prompt_token_count = token_count("a prompt is too long");
    if (number() != 0) request.prompt = tokens(static_cast<size_t>(add.prompt_token_count));
    request.sampling.max_tokens = small<int32_t>("max_tokens is out of range");
    request.sampling.ignore_eos = number() != 0;
    request.sampling.stop_token_ids = tokens(count());
    request.end_tokens = tokens(count());
    request.priority = static_cast<int32_t>(signed_number());
    request.tenant = small<uint32_t>("a tenant is out of range", limits::kTenantsMax - 1);
    request.cache_salt = number();
    request.ttft_deadline = deadline();
    request.e2e_deadline = deadline();
    const uint64_t target = number();
    if (target > kTimeMax) corrupt("a time is out of range");
    request.itl_target = target == 0 ? kNoDeadline : static_cast<TimeNs>(target - 1);
    request.predicted_output_tokens = static_cast<int32_t>(signed_number());
    request.sampling.n = small<int32_t>("the number of choices is out of range", limits::kChoicesMax);
    const auto wanted = small<uint32_t>("what is wanted of the prompt is unknown", 7);
    request.sampling.prompt_logprobs = (wanted & 1U) != 0 ? 0 : -1;
    request.pooling = static_cast<Pooling>(wanted >> 1U);
    request.adapter = small<uint32_t>("an adapter is out of range");
    request.prediction = tokens(count());
    const auto part = small<HostPart>("what the host does is unknown", static_cast<uint64_t>(HostPart::Draws));
    request.has_token_filter = part == HostPart::Filters || part == HostPart::FiltersWhenAwake;
    request.filter_sleeps = part == HostPart::FiltersWhenAwake;
    if (part == HostPart::Draws) request.sampling.dry_multiplier = 1.0F;  // stands for all that makes it draw
    return add;
  }

  TraceCancel read_cancel() { return {.sequence = sequence(), .reason = reason(), .whole_request = number() != 0}; }

  TracePlan read_plan() {
    TracePlan plan;
    plan.step = number();
    int64_t scheduled = 0;
    for (size_t left = count(); left > 0; --left) {
      const TracePlan::Entry& entry =
          plan.entries.emplace_back(TracePlan::Entry{sequence(), token_count(), token_count()});
      scheduled += entry.scheduled;
      if (scheduled > std::numeric_limits<int32_t>::max()) corrupt("a step computes too many tokens");
    }
    for (size_t left = count(); left > 0; --left) {
      Refusal refusal{.sequence = sequence()};
      refusal.result = admission_result();
      refusal.wanted_blocks = small<int32_t>("a block count is out of range");
      refusal.available_blocks = small<int32_t>("a block count is out of range");
      plan.refusals.push_back(refusal);
    }
    plan.pass_end = admission_result();
    for (size_t left = count(); left > 0; --left) {
      Preemption preemption{.sequence = sequence()};
      preemption.lost_tokens = token_count();
      preemption.swapped_blocks = small<int32_t>("a block count is out of range");
      plan.preemptions.push_back(preemption);
    }
    return plan;
  }

  TraceCommit read_commit() {
    TraceCommit commit;
    commit.step = number();
    commit.duration = small<TimeNs>("a duration is out of range", kTimeMax);
    for (size_t left = count(); left > 0; --left) {
      commit.tokens.push_back(
          static_cast<TokenId>(small<int64_t>("a token id is out of range", uint64_t{1} << 31) - 1));
    }
    while (!fields_.empty()) {
      const auto row = static_cast<size_t>(number());
      const size_t following = count();
      if (following == 0) {
        commit.waking.push_back(row);
        continue;
      }
      const auto further = small<size_t>("more tokens were guessed than follow", following);
      commit.following.push_back({.row = row, .tokens = tokens(following), .further_count = further});
    }
    return commit;
  }

  std::span<const std::byte> rest_, fields_;
  size_t index_ = 0;
  TimeNs time_ = 0;
  uint64_t last_sequence_ = 0;
};

}  // namespace

std::vector<TraceRecord> decode_trace(std::span<const std::byte> bytes) { return Decoder(bytes).decode(); }

}  // namespace inflight
