// SPDX-License-Identifier: Apache-2.0
#include "sim/calibration.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/median.h"
#include "base/rng.h"

namespace inflight {
namespace {

using Vector = std::vector<double>;

// The curve's points, then kCounts.
class Terms {
 public:
  explicit Terms(std::span<const MeasuredStep> steps) {
    std::map<int64_t, int64_t> count_of;
    for (const MeasuredStep& step : steps) ++count_of[step.work.tokens];
    constexpr double kSpacing = 1.2;  // of points that few steps stand for
    const auto enough = static_cast<int64_t>(std::max<size_t>(8, steps.size() / 500));
    int64_t since = 0;
    for (const auto& [tokens, count] : count_of) {
      since += count;
      const bool far = points_.empty() || static_cast<double>(tokens) >= kSpacing * static_cast<double>(points_.back());
      const bool last = tokens == count_of.rbegin()->first;
      if (count < enough && !(far && since >= enough) && !last && !points_.empty()) continue;
      points_.push_back(tokens);
      since = 0;
    }
  }

  [[nodiscard]] size_t count() const { return points_.size() + kCounts; }
  // Steps of about the same length have the same number.
  [[nodiscard]] size_t kind_of(const DeviceWork& work) const {
    const auto above = std::ranges::lower_bound(points_, work.tokens) - points_.begin();
    return 2 * static_cast<size_t>(above) + (work.prefill_pairs > 0 ? 1 : 0);
  }
  [[nodiscard]] const std::vector<int64_t>& points() const { return points_; }

  [[nodiscard]] Vector features(const MeasuredStep& step) const {
    const DeviceWork& work = step.work;
    Vector x(count(), 0.0);
    const auto above = std::ranges::lower_bound(points_, work.tokens);
    const auto i = static_cast<size_t>(above - points_.begin());
    if (above == points_.end()) {
      x[i - 1] = 1.0;
    } else if (*above == work.tokens || i == 0) {
      x[i] = 1.0;
    } else {
      const auto low = static_cast<double>(points_[i - 1]), high = static_cast<double>(*above);
      x[i] = (static_cast<double>(work.tokens) - low) / (high - low);
      x[i - 1] = 1.0 - x[i];
    }
    x[points_.size()] = static_cast<double>(work.sequences);
    x[points_.size() + 1] = static_cast<double>(work.decode_context);
    x[points_.size() + 2] = static_cast<double>(work.prefill_pairs);
    x[points_.size() + 3] = static_cast<double>(work.prompts);
    x[points_.size() + 4] = work.prompts > 0 && work.sequences > work.prompts ? 1.0 : 0.0;
    x[points_.size() + 5] = work.wake;
    x[points_.size() + 6] = work.warm;
    x[points_.size() + 7] = work.idle;
    return x;
  }

 private:
  // Sequences, context of decodes, pairs of prompts, prompts, mixed, wake, warm, idle.
  static constexpr size_t kCounts = 8;
  std::vector<int64_t> points_;
};

double dot(const Vector& a, const Vector& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// The normal equations of rows x . w = y, solved with w >= 0.
class LeastSquares {
 public:
  explicit LeastSquares(size_t terms) : matrix_(terms, Vector(terms, 0.0)), right_(terms, 0.0) {}

  void add(const Vector& x, double y, double weight) {
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i] == 0.0) continue;
      right_[i] += weight * x[i] * y;
      for (size_t j = 0; j < x.size(); ++j) matrix_[i][j] += weight * x[i] * x[j];
    }
  }

  // Active sets: the free terms are solved for, those that would be negative are held at zero, and set free again
  // where that lowers the sum. Source: Lawson and Hanson 1974, chapter 23.
  [[nodiscard]] Vector solve() const {
    const size_t terms = right_.size();
    Vector weights(terms, 0.0);
    std::vector<bool> is_free(terms, true);
    for (size_t round = 0; round < 10 * terms; ++round) {
      const Vector wanted = solve_free(is_free);
      double step = 1.0;
      for (size_t i = 0; i < terms; ++i) {
        if (is_free[i] && wanted[i] <= 0.0) step = std::min(step, weights[i] / (weights[i] - wanted[i] + 1e-300));
      }
      for (size_t i = 0; i < terms; ++i) {
        if (!is_free[i]) continue;
        weights[i] += step * (wanted[i] - weights[i]);
        if (wanted[i] <= 0.0 && weights[i] <= 1e-12 * std::abs(wanted[i])) {
          is_free[i] = false;
          weights[i] = 0.0;
        }
      }
      if (step < 1.0) continue;
      const size_t next = best_to_free(weights, is_free);
      if (next == terms) break;
      is_free[next] = true;
    }
    return weights;
  }

 private:
  // Cholesky's decomposition over the free terms, scaled to a diagonal of ones.
  [[nodiscard]] Vector solve_free(const std::vector<bool>& is_free) const {
    constexpr double kRidge = 1e-10;
    std::vector<size_t> terms;
    for (size_t i = 0; i < is_free.size(); ++i) {
      if (is_free[i] && matrix_[i][i] > 0.0) terms.push_back(i);
    }
    const size_t n = terms.size();
    Vector scale(n), y(n);
    for (size_t i = 0; i < n; ++i) scale[i] = std::sqrt(matrix_[terms[i]][terms[i]]);
    std::vector<Vector> low(n, Vector(n, 0.0));
    for (size_t i = 0; i < n; ++i) {
      y[i] = right_[terms[i]] / scale[i];
      for (size_t j = 0; j <= i; ++j) {
        double sum = matrix_[terms[i]][terms[j]] / (scale[i] * scale[j]) + (i == j ? kRidge : 0.0);
        for (size_t k = 0; k < j; ++k) sum -= low[i][k] * low[j][k];
        low[i][j] = i == j ? std::sqrt(std::max(sum, kRidge)) : sum / low[j][j];
      }
      for (size_t k = 0; k < i; ++k) y[i] -= low[i][k] * y[k];
      y[i] /= low[i][i];
    }
    Vector all(is_free.size(), 0.0);
    for (size_t i = n; i-- > 0;) {
      for (size_t k = i + 1; k < n; ++k) y[i] -= low[k][i] * y[k];
      y[i] /= low[i][i];
    }
    for (size_t i = 0; i < n; ++i) all[terms[i]] = y[i] / scale[i];
    return all;
  }

  // The held term along which the sum falls most; the number of terms: none.
  [[nodiscard]] size_t best_to_free(const Vector& weights, const std::vector<bool>& is_free) const {
    size_t best = weights.size();
    double most = 1e-9;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (is_free[i] || matrix_[i][i] <= 0.0) continue;
      const double gain = (right_[i] - dot(matrix_[i], weights)) / std::sqrt(matrix_[i][i]);
      if (gain > most) {
        most = gain;
        best = i;
      }
    }
    return best;
  }

  std::vector<Vector> matrix_;
  Vector right_;
};

// A point of the curve lies between its neighbours unless its steps say otherwise. Errors are relative to the point, or
// to a part of `scales` (one a point): one that came out as zero once would else stay there.
void add_smoothness(LeastSquares& equations, const Terms& terms, const Vector& weights, const Vector& scales) {
  const auto& points = terms.points();
  constexpr double kWeight = 2.0;  // as so many steps
  constexpr double kPart = 0.2;
  for (size_t i = 1; i + 1 < points.size(); ++i) {
    const auto low = static_cast<double>(points[i - 1]), here = static_cast<double>(points[i]),
               high = static_cast<double>(points[i + 1]);
    const double value = std::max(weights[i], kPart * scales[i]);
    Vector x(terms.count(), 0.0);
    x[i] = 1.0 / value;
    x[i - 1] = -(high - here) / (high - low) / value;
    x[i + 1] = -(here - low) / (high - low) / value;
    equations.add(x, 0.0, kWeight);
  }
}

// What a step's error is measured against: the median of its kind, or of some more of about as many tokens where these
// are few. (Its own duration would make one that seems to take no time, since its end was seen late and that of the
// next one in time, weigh more than all others.)
Vector scales_of(std::span<const MeasuredStep> steps, const Terms& terms) {
  constexpr size_t kFew = 9;
  Vector scales(steps.size());
  for (const bool prompts : {false, true}) {
    std::vector<size_t> order;
    for (size_t i = 0; i < steps.size(); ++i) {
      if ((steps[i].work.prefill_pairs > 0) == prompts) order.push_back(i);
    }
    std::ranges::sort(order, {}, [&](size_t i) { return std::pair(steps[i].work.tokens, i); });
    for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
      const size_t kind = terms.kind_of(steps[order[begin]].work);
      while (end < order.size() && terms.kind_of(steps[order[end]].work) == kind) ++end;
      size_t first = begin, last = end;
      while (last - first < std::min(kFew, order.size())) {
        if (first > 0) --first;
        if (last < order.size()) ++last;
      }
      Vector seconds;
      for (size_t i = first; i < last; ++i) seconds.push_back(steps[order[i]].seconds);
      const double median = std::max(median_of(std::move(seconds)), 1e-9);
      for (size_t i = begin; i < end; ++i) scales[order[i]] = median;
    }
  }
  return scales;
}

Vector fit(std::span<const MeasuredStep> steps, const Terms& terms) {
  const Vector scales = scales_of(steps, terms);
  Vector point_scales(terms.points().size(), std::numeric_limits<double>::max());
  for (size_t i = 0; i < steps.size(); ++i) {
    double& scale = point_scales[terms.kind_of(steps[i].work) / 2];
    scale = std::min(scale, scales[i]);
  }
  std::vector<Vector> rows;
  rows.reserve(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    rows.push_back(terms.features(steps[i]));
    for (double& value : rows.back()) value /= scales[i];
  }
  Vector weights(terms.count(), 0.0), trust(steps.size(), 1.0), errors(steps.size(), 0.0);
  constexpr int kRounds = 12;  // of reweighting (Huber 1964)
  for (int round = 0; round < kRounds; ++round) {
    LeastSquares equations(terms.count());
    for (size_t i = 0; i < rows.size(); ++i) equations.add(rows[i], steps[i].seconds / scales[i], trust[i]);
    if (round > 0) add_smoothness(equations, terms, weights, point_scales);
    weights = equations.solve();
    for (size_t i = 0; i < rows.size(); ++i) errors[i] = std::abs(dot(rows[i], weights) - steps[i].seconds / scales[i]);
    const double scale = std::max(1.5 * median_of(errors), 1e-6);
    for (size_t i = 0; i < rows.size(); ++i) trust[i] = std::min(1.0, scale / std::max(errors[i], 1e-12));
  }
  return weights;
}

double median_error(std::span<const MeasuredStep> steps, const Terms& terms, const Vector& weights) {
  Vector errors;
  for (const MeasuredStep& step : steps) {
    errors.push_back(std::abs(dot(terms.features(step), weights) / step.seconds - 1.0));
  }
  return median_of(std::move(errors));
}

struct Ratio {
  double expected_us;
  double value;  // what the step took over what it should have taken
};

// Of steps that should take about as long (within a factor of two, or more where these are few), the longest half per
// cent left out: what disturbs a short step by half of its time is nothing for a long one.
std::vector<Jitter> jitter_of(std::vector<Ratio> ratios) {
  constexpr size_t kValues = 40, kStepsMin = 5 * kValues;
  constexpr double kKept = 0.995, kWidth = 2.0;
  std::vector<Jitter> classes;
  std::ranges::sort(ratios, {}, &Ratio::expected_us);
  for (size_t begin = 0; begin < ratios.size() && ratios.size() >= kValues;) {
    size_t end = begin;
    while (end < ratios.size() && (end - begin < kStepsMin || ratios.size() - end < kStepsMin ||
                                   ratios[end].expected_us < kWidth * ratios[begin].expected_us)) {
      ++end;
    }
    Vector sorted, values;
    for (size_t i = begin; i < end; ++i) sorted.push_back(ratios[i].value);
    std::ranges::sort(sorted);
    for (size_t i = 0; i < kValues; ++i) {
      const double place = kKept * (static_cast<double>(i) + 0.5) / kValues * static_cast<double>(sorted.size());
      values.push_back(sorted[static_cast<size_t>(place)]);
    }
    classes.push_back({classes.empty() ? 0.0 : ratios[begin].expected_us, std::move(values)});
    begin = end;
  }
  return classes;
}

}  // namespace

CalibrationFit fit_device_profile(std::span<const MeasuredStep> steps, const DeviceProfile& base) {
  constexpr size_t kStepsMin = 20;
  if (steps.size() < kStepsMin) {
    fail(ErrorCode::InvalidArgument, "{} measured steps, allowed: at least {}", steps.size(), kStepsMin);
  }
  const Terms terms(steps);
  const Vector weights = fit(steps, terms);
  CalibrationFit found{.profile = base, .median_error = median_error(steps, terms, weights)};

  constexpr size_t kFolds = 5;
  Rng rng(1);
  std::vector<size_t> fold_of(steps.size());
  for (size_t& fold : fold_of) fold = rng.below(kFolds);
  for (size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<MeasuredStep> others, held_out;
    for (size_t i = 0; i < steps.size(); ++i) (fold_of[i] == fold ? held_out : others).push_back(steps[i]);
    found.held_out_error += median_error(held_out, terms, fit(others, terms)) / kFolds;
  }

  double predicted = 0.0, measured = 0.0;
  std::vector<Ratio> decode_ratios, prompt_ratios;
  for (const MeasuredStep& step : steps) {
    const double expected = dot(terms.features(step), weights);
    predicted += expected;
    measured += step.seconds;
    if (expected > 0.0) {
      (step.work.prefill_pairs > 0 ? prompt_ratios : decode_ratios)
          .push_back({expected * 1e6, step.seconds / expected});
    }
  }
  found.total_error = predicted / measured - 1.0;

  const size_t points = terms.points().size();
  DeviceProfile& profile = found.profile;
  profile.overhead_us = profile.weights_us = profile.token_us = 0.0;
  profile.linear_us.clear();
  profile.decode_jitter = jitter_of(std::move(decode_ratios));
  profile.prompt_jitter = jitter_of(std::move(prompt_ratios));
  for (size_t i = 0; i < points; ++i) profile.linear_us.push_back({terms.points()[i], weights[i] * 1e6});
  profile.sequence_us = weights[points] * 1e6;
  profile.kv_read_ns = weights[points + 1] * 1e9;
  profile.pair_ns = weights[points + 2] * 1e9;
  profile.prompt_us = weights[points + 3] * 1e6;
  profile.mixed_us = weights[points + 4] * 1e6;
  profile.wake_us = weights[points + 5] * 1e6;
  profile.warm_us = weights[points + 6] * 1e6;
  profile.idle_us = weights[points + 7] * 1e6;
  return found;
}

}  // namespace inflight
