// SPDX-License-Identifier: Apache-2.0
#include "ops/tuned_linear.h"

namespace inflight {
namespace {

constexpr std::string_view kPocl = "Portable Computing Language";

// `inflight tune`, medians of 3. The files for fewer features were timed on the same machine, which
// has those of the first: what they gain or lose on an older processor is not known, their order is
// (docs/performance/linear-layers.md, Zen 3).
constexpr TunedLinear kTable[] = {
    {kPocl, "3.1", "avx2 fma f16c avx_vnni avx512 avx512_vnni", "linear_vnni.cl", 41, 1112, "AMD EPYC (Zen 5)"},
    {kPocl, "3.1", "avx2 fma f16c avx512 avx512_vnni", "linear_vnni.cl", 41, 1112, "AMD EPYC (Zen 5)"},
    {kPocl, "3.1", "avx2 fma f16c avx_vnni", "linear_avx_vnni.cl", 37, 637, "AMD EPYC (Zen 5)"},
    {kPocl, "3.1", "avx2 fma f16c avx512", "linear_avx2.cl", 43, 312, "AMD EPYC (Zen 5)"},
    {kPocl, "3.1", "avx2 fma f16c", "linear_avx2.cl", 43, 312, "AMD EPYC (Zen 5)"},
};

}  // namespace

std::span<const TunedLinear> tuned_linear_table() { return kTable; }

std::string tuned_linear_file(const DeviceInfo& info) {
  const std::string features = info.cpu.describe();
  for (const TunedLinear& entry : kTable) {
    if (info.platform == entry.platform && info.driver.starts_with(entry.driver) && features == entry.features) {
      return std::string(entry.file);
    }
  }
  return {};
}

}  // namespace inflight
