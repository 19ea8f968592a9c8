// SPDX-License-Identifier: Apache-2.0
#include "sim/workload_spec.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/limits.h"
#include "base/rng.h"
#include "sim/length_distribution.h"
#include "sim/parse_number.h"

namespace inflight {
namespace {

struct Key {
  const char* name;
  const char* value;  // default
  const char* help;
  bool whole = false;  // takes whole numbers, a length's among them
};
constexpr uint64_t kSeedMax = 1'000'000'000'000'000;
constexpr std::array kWorkloadKeys = {
    Key{"requests", "256", "how many", true},
    Key{"seed", "1",
        "of all random numbers; each attribute has its own, so that one more key leaves the others as they are", true},
    Key{"prompt", "512", "tokens of a prompt (of one turn), without the shared prefix: a length", true},
    Key{"output", "128", "tokens of an answer: a length", true},
    Key{"max_tokens", "0", "what requests ask for; 0 = just their output; else a length, never below the output", true},
    Key{"arrivals", "all", "all (at the begin), poisson, gamma or ramp"},
    Key{"rate", "10", "requests (conversations, groups of branches) a second, of other arrivals than all"},
    Key{"cv", "3", "gamma: standard deviation of the gaps over their mean"},
    Key{"rate_end", "0", "ramp: rate of the last request"},
    Key{"concurrency", "0", "clients that each wait for the end of their request before the next; 0 = none wait", true},
    Key{"think_ms", "0", "between the end of a request and the next of its client or conversation (mean, exponential)"},
    Key{"turns", "1", "requests of a conversation; each holds the ones before and their answers", true},
    Key{"prefix", "0", "tokens that all requests of a group begin with", true},
    Key{"prefix_groups", "1", "different shared prefixes", true},
    Key{"prefix_skew", "0", "Zipf exponent of the groups' popularity; 0 = all alike"},
    Key{"branches", "1", "requests that share one whole prompt and arrive together", true},
    Key{"tenants", "1", "request i belongs to one of so many", true},
    Key{"adapters", "0", "conversations run with one of so many adapters, in turn; 0 = with none", true},
    Key{"tenant_skew", "0", "Zipf exponent of the tenants' shares; 0 = all alike"},
    Key{"priorities", "1", "priority is uniform in 0..N-1 (lower = sooner)", true},
    Key{"ttft_ms", "0", "deadline of the first token after arrival; 0 = none"},
    Key{"e2e_ms", "0", "deadline of the last token after arrival; 0 = none"},
    Key{"itl_ms", "0", "wanted time between tokens, of a request's mean; 0 = none"},
    Key{"tight_share", "0", "share of requests whose deadlines are a fifth of these"},
    Key{"acceptance", "none",
        "speculative decoding: how likely a guess is right when those before it are, 0 to 1; none: no guesses"},
    Key{"predict", "none", "output length told to policies: none, oracle, or a sigma: log-normal error"},
};

struct Kind {
  const char* name;
  const char* keys;  // its defaults
  const char* help;
};
constexpr std::array kKinds = {
    Kind{"lengths", "prompt=16", "lengths=50,60,400,80: requests with just these output lengths, in turn"},
    Kind{"bimodal", "prompt=16,output=mix:0.8:10-50:200-500", "80 % short, 20 % long answers, all at the begin"},
    Kind{"closed", "", "equal requests, all at the begin, or from `concurrency` clients"},
    Kind{"uniform", "prompt=16-512,output=10-500", "uniform lengths, all at the begin"},
    Kind{"poisson", "arrivals=poisson", "equal requests at random times"},
    Kind{"gamma", "arrivals=gamma", "bursts"},
    Kind{"ramp", "arrivals=ramp,rate=1,rate_end=20", "a growing rate"},
    Kind{"lognormal", "arrivals=poisson,prompt=lognormal:256:1,output=lognormal:128:0.8",
         "lengths like a chat service's"},
    Kind{"prefix", "arrivals=poisson,prefix=1024,prefix_groups=8,prompt=128", "few-shot prompts: shared beginnings"},
    Kind{"multiturn", "arrivals=poisson,turns=5,prefix=256,prompt=64,think_ms=2000", "conversations"},
    Kind{"branches", "branches=4,prompt=2048,output=128", "several answers to one prompt at once"},
    Kind{"tenants", "arrivals=poisson,tenants=4,tenant_skew=1,prompt=lognormal:256:1", "tenants of unequal demand"},
};

// What a key says nothing without: one of the others, with one of the values (none named: any but its default).
struct Need {
  const char* key;
  std::array<const char*, 3> others;
  std::string_view values = "";
};
constexpr std::array kNeeds = {
    Need{"rate", {"arrivals"}, "poisson, gamma, ramp"},
    Need{"cv", {"arrivals"}, "gamma"},
    Need{"rate_end", {"arrivals"}, "ramp"},
    Need{"think_ms", {"concurrency", "turns"}},
    Need{"prefix_groups", {"prefix"}},
    Need{"prefix_skew", {"prefix_groups"}},
    Need{"tenant_skew", {"tenants"}},
    Need{"tight_share", {"ttft_ms", "e2e_ms", "itl_ms"}},
};

// What was given over the kind's defaults over the common ones.
class Spec {
 public:
  explicit Spec(std::string_view text) : text_(text) {
    for (const Key& key : kWorkloadKeys) values_[key.name] = key.value;
    const std::string_view head = text.substr(0, text.find(','));
    const std::string_view kind_name = head.substr(0, head.find('='));
    const auto kind = std::ranges::find(kKinds, kind_name, &Kind::name);
    if (kind == kKinds.end() || (kind_name != "lengths" && head.size() > kind_name.size())) {
      std::string names;
      for (const Kind& known : kKinds) names += std::string(names.empty() ? "" : ", ") + known.name;
      fail(ErrorCode::InvalidArgument, "workload '{}' is unknown, allowed: {} (lengths=N,N,...)", head, names);
    }
    read(kind->keys);
    std::string_view rest = text.substr(std::min(text.size(), kind_name.size() + 1));
    if (kind_name == "lengths") {
      read_list(rest);
      values_["requests"] = std::to_string(list_.size());
    }
    check_effects(read(rest));
  }

  [[nodiscard]] const std::string& text(const char* key) const { return values_.at(key); }
  // words: what else the key may be.
  [[nodiscard]] double number(const char* key, double low, double high, const char* words = "") const {
    const auto value = parse_number(text(key));
    if (!value || !(*value >= low && *value <= high)) {
      fail(ErrorCode::InvalidArgument, "workload key {} is '{}', allowed: {}{} to {}", key, text(key), words, low,
           high);
    }
    return *value;
  }
  template <typename Integer>
  [[nodiscard]] Integer integer(const char* key, Integer low, Integer high) const {
    const double value = number(key, static_cast<double>(low), static_cast<double>(high));
    if (value != std::floor(value)) {
      fail(ErrorCode::InvalidArgument, "workload key {} is '{}', allowed: whole numbers", key, text(key));
    }
    return static_cast<Integer>(value);
  }
  [[nodiscard]] const std::vector<int32_t>& list() const { return list_; }

 private:
  // Takes the numbers at the begin of `rest`.
  void read_list(std::string_view& rest) {
    while (!rest.empty()) {
      const std::string_view item = rest.substr(0, rest.find(','));
      if (item.find('=') != std::string_view::npos) break;
      const auto value = parse_number<int32_t>(item);
      if (!value || *value < 1 || *value > limits::kContextTokensMax) {
        fail(ErrorCode::InvalidArgument, "workload length '{}' in '{}', allowed: 1 to {}", item, text_,
             limits::kContextTokensMax);
      }
      list_.push_back(*value);
      rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    }
    if (list_.empty())
      fail(ErrorCode::InvalidArgument, "workload '{}' names no length, allowed: lengths=N,N,...", text_);
  }

  using Given = std::set<std::string, std::less<>>;

  // What would have no effect is refused, but where what it needs is given too: that may be an arm of a comparison.
  void check_effects(const Given& given) const {
    for (const Need& need : kNeeds) {
      if (!given.contains(need.key) || is_met(need, given)) continue;
      std::string others;
      for (const char* const other : need.others) {
        if (other != nullptr) others += fmt::format("{}{}", others.empty() ? "" : " or ", other);
      }
      fail(ErrorCode::InvalidArgument, "workload key {} in '{}' has no effect, allowed: with {}{}{}", need.key, text_,
           others, need.values.empty() ? "" : "=", need.values);
    }
    if (!list_.empty() && given.contains("output")) {
      fail(ErrorCode::InvalidArgument, "workload key output in '{}' has no effect: the lengths are listed", text_);
    }
  }
  [[nodiscard]] bool is_met(const Need& need, const Given& given) const {
    return std::ranges::any_of(need.others, [&](const char* other) {
      if (other == nullptr) return false;
      if (given.contains(other)) return true;
      const std::string& value = text(other);
      if (!need.values.empty()) return need.values.find(value) != std::string_view::npos;
      return value != std::ranges::find(kWorkloadKeys, std::string_view(other), &Key::name)->value;
    });
  }

  // Returns the keys.
  Given read(std::string_view pairs) {
    Given given;
    while (!pairs.empty()) {
      const std::string_view pair = pairs.substr(0, pairs.find(','));
      pairs.remove_prefix(std::min(pairs.size(), pair.size() + 1));
      const size_t equals = pair.find('=');
      const std::string key(pair.substr(0, equals));
      if (equals == std::string_view::npos || !values_.contains(key)) {
        std::string names;
        for (const Key& known : kWorkloadKeys) names += std::string(names.empty() ? "" : ", ") + known.name;
        fail(ErrorCode::InvalidArgument, "workload key '{}' in '{}' is unknown, allowed: {}", key, text_, names);
      }
      if (!given.insert(key).second) {
        fail(ErrorCode::InvalidArgument, "workload key '{}' is given twice in '{}'", key, text_);
      }
      values_[key] = pair.substr(equals + 1);
    }
    return given;
  }

  std::string_view text_;
  std::map<std::string, std::string> values_;
  std::vector<int32_t> list_;
};

// Draws 0..count-1 with shares proportional to 1 / (i + 1)^skew.
class Zipf {
 public:
  Zipf(int32_t count, double skew) {
    double sum = 0.0;
    for (int32_t i = 0; i < count; ++i) cumulative_.push_back(sum += std::pow(i + 1.0, -skew));
  }
  int32_t draw(Rng& rng) const {
    const double at = rng.uniform() * cumulative_.back();
    return static_cast<int32_t>(std::ranges::upper_bound(cumulative_, at) - cumulative_.begin());
  }

 private:
  std::vector<double> cumulative_;
};

// When requests (conversations) begin.
class Arrivals {
 public:
  explicit Arrivals(const Spec& spec)
      : kind_(spec.text("arrivals")),
        rate_(spec.number("rate", 1e-6, 1e9)),
        rate_end_(spec.number("rate_end", 0.0, 1e9)),
        shape_(1.0 / std::pow(spec.number("cv", 0.01, 100.0), 2.0)) {
    if (kind_ != "all" && kind_ != "poisson" && kind_ != "gamma" && kind_ != "ramp") {
      fail(ErrorCode::InvalidArgument, "workload key arrivals is '{}', allowed: all, poisson, gamma, ramp", kind_);
    }
  }
  // progress: share of the workload that has arrived, [0, 1).   ERRORS: InvalidArgument beyond kSimSecondsMax.
  TimeNs next(Rng& rng, double progress) {
    if (kind_ == "all") return 0;
    const double end = rate_end_ > 0.0 ? rate_end_ : rate_;
    const double rate = kind_ == "ramp" ? rate_ + (end - rate_) * progress : rate_;
    const double gap = kind_ == "gamma" ? draw_gamma(rng, shape_) : -std::log(1.0 - rng.uniform());
    const double wait = gap / rate;
    if (const double seconds = static_cast<double>(now_) * 1e-9 + wait; !(seconds <= kSimSecondsMax)) {
      fail(ErrorCode::InvalidArgument,
           "a request of the workload comes {:.3g} s after the begin, allowed: up to {:.0f} s", seconds,
           kSimSecondsMax);
    }
    return now_ += static_cast<TimeNs>(wait * 1e9);
  }

 private:
  std::string kind_;
  double rate_, rate_end_, shape_;
  TimeNs now_ = 0;
};

class Generator {
 public:
  Generator(std::string_view text, const WorkloadLimits& allowed)
      : spec_(text),
        requests_(spec_.integer("requests", 1, static_cast<int32_t>(allowed.requests))),
        allowed_tokens_(allowed.tokens),
        tokens_left_(allowed.tokens),
        prompt_("prompt", spec_.text("prompt")),
        output_("output", spec_.text("output")),
        arrivals_(spec_),
        tenants_(spec_.integer("tenants", 1, limits::kTenantsMax), spec_.number("tenant_skew", 0, 10)),
        groups_(spec_.integer("prefix_groups", 1, static_cast<int32_t>(std::min<int64_t>(allowed.requests, 1 << 24))),
                spec_.number("prefix_skew", 0, 10)) {
    if (spec_.text("max_tokens") != "0") max_tokens_.emplace("max_tokens", spec_.text("max_tokens"));
    const std::string& predict = spec_.text("predict");
    if (predict == "oracle") {
      predict_sigma_ = 0.0;
    } else if (predict != "none") {
      predict_sigma_ = spec_.number("predict", 0.0, 10.0, "none, oracle, ");
    }
    workload_.name = text;
    workload_.seed = seed_;
    if (spec_.text("acceptance") != "none") workload_.acceptance = spec_.number("acceptance", 0.0, 1.0, "none, ");
    if (branches_ > 1 && turns_ > 1) {
      fail(ErrorCode::InvalidArgument, "workload '{}' has branches and turns, allowed: one of them", text);
    }
  }

  Workload make() {
    const int32_t clients = spec_.integer("concurrency", 0, limits::kRequestsMax);
    workload_.requests.reserve(static_cast<size_t>(requests_));
    std::vector<int32_t> last_of_client(static_cast<size_t>(clients), kNoRequest);
    size_t client = 0;
    while (static_cast<int64_t>(workload_.requests.size()) < requests_) {
      const auto made = static_cast<int64_t>(workload_.requests.size());
      Conversation conversation = begin(static_cast<double>(made) / static_cast<double>(requests_));
      if (clients > 0) conversation.after = last_of_client[client];
      if (branches_ > 1) conversation.after_count = branches_;  // only the last client's may be fewer: nobody follows
      for (int32_t i = 0; i < turns_ * branches_ && made + i < requests_; ++i) add_turn(conversation, i);
      if (clients > 0) {
        last_of_client[client] = static_cast<int32_t>(workload_.requests.size()) - 1;
        client = (client + 1) % static_cast<size_t>(clients);
      }
    }
    return std::move(workload_);
  }

 private:
  // One client talking: its next request begins with all that was said.
  struct Conversation {
    TimeNs arrival = 0;  // of the next request, as SimRequest has it
    int32_t after = kNoRequest, after_count = 1;
    uint64_t stream = 0;
    uint64_t prefix_stream = 0;
    int32_t prefix = 0;
    int32_t said = 0;  // tokens so far, prefix included
    uint32_t tenant = 0;
    uint32_t adapter = 0;
    int32_t priority = 0;
    bool tight = false;
  };

  Conversation begin(double progress) {
    Conversation conversation;
    conversation.arrival = arrivals_.next(arrival_rng_, progress);
    conversation.stream = ++streams_;
    conversation.prefix = prefix_;
    if (conversation.prefix > 0)
      conversation.prefix_stream = kPrefixStreams + static_cast<uint64_t>(groups_.draw(prefix_rng_));
    conversation.said = conversation.prefix;
    conversation.tenant = static_cast<uint32_t>(tenants_.draw(tenant_rng_));
    if (adapters_ > 0) conversation.adapter = static_cast<uint32_t>(conversations_++ % adapters_) + 1;
    conversation.priority = priority_rng_.between(0, priorities_ - 1);
    conversation.tight = deadline_rng_.chance(tight_share_);
    return conversation;
  }

  [[nodiscard]] static TimeNs deadline(double ms, bool tight) {
    return ms == 0.0 ? kNoDeadline : static_cast<TimeNs>(ms * 1e6 * (tight ? 0.2 : 1.0));
  }

  int32_t draw_output() {
    if (spec_.list().empty()) return output_.draw(output_rng_);
    return spec_.list()[workload_.requests.size() % spec_.list().size()];
  }

  // index: of the turn, or of the branch.
  void add_turn(Conversation& conversation, int32_t index) {
    SimRequest request;
    if (branches_ == 1 || index == 0) conversation.said += prompt_.draw(prompt_rng_);
    const std::array<ContentSegment, 2> segments = {
        ContentSegment{conversation.prefix_stream, 0, conversation.prefix},
        ContentSegment{conversation.stream, conversation.prefix, conversation.said - conversation.prefix}};
    const auto prompt = std::span(segments).subspan(conversation.prefix > 0 ? 0 : 1);
    request.output_tokens = draw_output();
    if (max_tokens_) request.max_tokens = max_tokens_->draw(max_tokens_rng_);
    if (predict_sigma_) {
      const double guess = request.output_tokens * std::exp(*predict_sigma_ * draw_normal(prediction_rng_));
      request.predicted_output_tokens = static_cast<int32_t>(std::clamp(std::round(guess), 1.0, 1e6));
    }
    request.tenant = conversation.tenant;
    request.adapter = conversation.adapter;
    request.priority = conversation.priority;
    request.ttft_deadline = deadline(ttft_ms_, conversation.tight);
    request.e2e_deadline = deadline(e2e_ms_, conversation.tight);
    request.itl_target = deadline(itl_ms_, conversation.tight);
    request.output_stream = branches_ == 1 ? conversation.stream : ++streams_;
    request.after = conversation.after;
    request.after_count = conversation.after_count;
    if (request.after != kNoRequest && (branches_ == 1 || index == 0)) {
      conversation.arrival = static_cast<TimeNs>(-think_ms_ * 1e6 * std::log(1.0 - think_rng_.uniform()));
    }
    request.arrival = conversation.arrival;
    workload_.add(request, prompt);
    tokens_left_ -= conversation.said + request.output_tokens;
    if (tokens_left_ < 0) {
      fail(ErrorCode::InvalidArgument, "workload '{}' has too many tokens in prompts and outputs, allowed: {}",
           workload_.name, allowed_tokens_);
    }
    if (branches_ > 1) return;
    conversation.said += request.output_tokens;
    conversation.after = static_cast<int32_t>(workload_.requests.size()) - 1;
  }

  static constexpr uint64_t kPrefixStreams = uint64_t{1} << 40;  // beyond the conversations' own

  // Every attribute draws from a stream of its own: with and without predictions, tenants, ... it is the same workload.
  [[nodiscard]] Rng stream_of(std::string_view attribute) const { return Rng(named_seed(seed_, attribute)); }

  Spec spec_;
  int64_t requests_, allowed_tokens_, tokens_left_;
  uint64_t seed_ = spec_.integer<uint64_t>("seed", 0, kSeedMax);
  Rng arrival_rng_ = stream_of("arrivals"), think_rng_ = stream_of("think"), prompt_rng_ = stream_of("prompt"),
      output_rng_ = stream_of("output"), max_tokens_rng_ = stream_of("max_tokens"),
      prediction_rng_ = stream_of("predict"), prefix_rng_ = stream_of("prefix"), tenant_rng_ = stream_of("tenants"),
      priority_rng_ = stream_of("priorities"), deadline_rng_ = stream_of("deadlines");
  LengthDistribution prompt_, output_;
  std::optional<LengthDistribution> max_tokens_;
  std::optional<double> predict_sigma_;
  Arrivals arrivals_;
  Zipf tenants_, groups_;
  int32_t adapters_ = spec_.integer("adapters", 0, limits::kTenantsMax);
  int32_t conversations_ = 0;
  int32_t turns_ = spec_.integer("turns", 1, 1000);
  int32_t branches_ = spec_.integer("branches", 1, 1000);
  int32_t prefix_ = spec_.integer("prefix", 0, limits::kContextTokensMax);
  int32_t priorities_ = spec_.integer("priorities", 1, 1000);
  double think_ms_ = spec_.number("think_ms", 0.0, 1e9);
  double tight_share_ = spec_.number("tight_share", 0.0, 1.0);
  double ttft_ms_ = spec_.number("ttft_ms", 0.0, 1e9);
  double e2e_ms_ = spec_.number("e2e_ms", 0.0, 1e9);
  double itl_ms_ = spec_.number("itl_ms", 0.0, 1e9);
  uint64_t streams_ = 0;
  Workload workload_;
};

}  // namespace

Workload make_workload(std::string_view spec, const WorkloadLimits& allowed) { return Generator(spec, allowed).make(); }

std::vector<std::string> length_files(std::string_view text) {
  constexpr std::string_view kFile = "file:";
  std::vector<std::string> files;
  for (size_t at = text.find(kFile); at != std::string_view::npos; at = text.find(kFile, at)) {
    at += kFile.size();
    files.emplace_back(text.substr(at, text.find(',', at) - at));
  }
  return files;
}

bool workload_key_is_whole(std::string_view name) {
  const auto known = std::ranges::find(kWorkloadKeys, name, &Key::name);
  return known != kWorkloadKeys.end() && known->whole;
}

std::string workload_help() {
  std::string text = "Workloads: KIND,key=value,...\n";
  for (const Kind& kind : kKinds) {
    text +=
        fmt::format("  {:<10} {}{}\n", kind.name, kind.help, *kind.keys == '\0' ? "" : fmt::format(" [{}]", kind.keys));
  }
  text += "Keys of every kind [default]:\n";
  for (const Key& key : kWorkloadKeys) text += fmt::format("  {:<13} {} [{}]\n", key.name, key.help, key.value);
  text +=
      "Lengths: N, LOW-HIGH, exp:MEAN, lognormal:MEDIAN:SIGMA, mix:SHARE:FIRST:SECOND, file:PATH (one number a line)\n";
  return text;
}

}  // namespace inflight
