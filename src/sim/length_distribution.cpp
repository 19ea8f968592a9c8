// SPDX-License-Identifier: Apache-2.0
#include "sim/length_distribution.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "base/error.h"
#include "base/limits.h"
#include "sim/parse_number.h"
#include "sim/text_file.h"

namespace inflight {
namespace {

constexpr double kLengthMax = limits::kContextTokensMax;

bool is_length(double value) { return value >= 1.0 && value <= kLengthMax && value == std::floor(value); }
int32_t to_length(double value) { return static_cast<int32_t>(std::clamp(std::round(value), 1.0, kLengthMax)); }

std::vector<int32_t> read_lengths(std::string_view what, const std::string& path) {
  const std::string text = read_text_file(path);
  std::vector<int32_t> lengths;
  int64_t line_number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const auto value = parse_number(line);
    if (!value || !is_length(*value)) {
      fail(ErrorCode::CorruptFile, "{}:{}: {} is '{}', allowed: 1 to {}, a whole number", path, line_number, what, line,
           limits::kContextTokensMax);
    }
    lengths.push_back(static_cast<int32_t>(*value));
  }
  if (lengths.empty()) fail(ErrorCode::CorruptFile, "{}: holds no lengths for {}", path, what);
  return lengths;
}

// Splits at the first `separator`.
std::pair<std::string_view, std::string_view> split(std::string_view text, char separator) {
  const size_t at = text.find(separator);
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

}  // namespace

LengthDistribution::LengthDistribution(std::string_view what, std::string_view text) {
  const auto bad = [&] {
    fail(ErrorCode::InvalidArgument,
         "{} is '{}', allowed: N, LOW-HIGH, exp:MEAN, lognormal:MEDIAN:SIGMA, mix:SHARE:FIRST:SECOND or file:PATH, "
         "lengths 1 to {}, whole numbers",
         what, text, limits::kContextTokensMax);
  };
  const auto number = [&](std::string_view part, double low, double high) {
    const auto value = parse_number(part);
    if (!value || !(*value >= low && *value <= high)) bad();
    return *value;
  };
  const auto [head, rest] = split(text, ':');
  if (head == "exp") {
    kind_ = Kind::Exponential;
    a_ = number(rest, 1.0, kLengthMax);
  } else if (head == "lognormal") {
    const auto [median, sigma] = split(rest, ':');
    kind_ = Kind::Lognormal;
    a_ = number(median, 1.0, kLengthMax);
    b_ = number(sigma, 0.0, 10.0);
  } else if (head == "mix") {
    const auto [share, parts] = split(rest, ':');
    const auto [first, second] = split(parts, ':');
    kind_ = Kind::Mixture;
    a_ = number(share, 0.0, 1.0);
    const std::string part = fmt::format("part of {} '{}'", what, text);
    parts_.emplace_back(part, first);
    parts_.emplace_back(part, second);
  } else if (head == "file") {
    kind_ = Kind::List;
    list_ = read_lengths(what, std::string(rest));
  } else {
    const auto [low, high] = split(text, '-');
    a_ = number(low, 1.0, kLengthMax);
    b_ = low == text ? a_ : number(high, a_, kLengthMax);
    if (!is_length(a_) || !is_length(b_)) bad();
  }
}

int32_t LengthDistribution::draw(Rng& rng) {
  switch (kind_) {
    case Kind::Uniform:
      return rng.between(static_cast<int32_t>(a_), static_cast<int32_t>(b_));
    case Kind::Exponential:
      return to_length(-a_ * std::log(1.0 - rng.uniform()));
    case Kind::Lognormal:
      return to_length(a_ * std::exp(b_ * draw_normal(rng)));
    case Kind::Mixture:
      return parts_[rng.chance(a_) ? 0 : 1].draw(rng);
    case Kind::List:
      return list_[next_++ % list_.size()];
  }
  return 1;
}

double draw_normal(Rng& rng) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - rng.uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * rng.uniform());
}

double draw_gamma(Rng& rng, double shape) {
  // Below 1: a gamma of shape + 1 times a power of a uniform number.
  if (shape < 1.0) {
    return draw_gamma(rng, shape + 1.0) * (shape + 1.0) * std::pow(1.0 - rng.uniform(), 1.0 / shape) / shape;
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = draw_normal(rng);
    const double v = std::pow(1.0 + c * x, 3.0);
    if (v <= 0.0) continue;
    if (std::log(1.0 - rng.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v / shape;
  }
}

}  // namespace inflight
