// SPDX-License-Identifier: Apache-2.0
// Writes Prometheus' text exposition format, version 0.0.4: families with HELP and TYPE, samples with labels.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace inflight {

using MetricLabel = std::pair<std::string_view, std::string_view>;

class PrometheusText {
 public:
  // prefix: before every name.  common: labels of every sample.   LIFETIME: borrowed.
  PrometheusText(std::string_view prefix, std::span<const MetricLabel> common) : prefix_(prefix), common_(common) {}

  // Begins a family; the samples that follow belong to it. A counter's name ends in _total.
  void counter(std::string_view name, std::string_view help) { family(name, "counter", help); }
  void gauge(std::string_view name, std::string_view help) { family(name, "gauge", help); }

  void sample(double value, std::initializer_list<MetricLabel> labels = {}) { line("", value, labels, {}); }

  // A whole family without labels of its own. counts: one more than bounds, not accumulated.
  void histogram(std::string_view name, std::string_view help, std::span<const double> bounds,
                 std::span<const int64_t> counts, double sum);

  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void family(std::string_view name, std::string_view type, std::string_view help);
  void line(std::string_view suffix, double value, std::initializer_list<MetricLabel> labels, std::string_view bound);

  std::string_view prefix_;
  std::span<const MetricLabel> common_;
  std::string name_;  // of the family
  std::string text_;
};

}  // namespace inflight
