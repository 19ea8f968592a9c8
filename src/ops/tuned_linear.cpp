// SPDX-License-Identifier: Apache-2.0
#include "ops/tuned_linear.h"

namespace inflight {
namespace {

constexpr std::string_view kPocl = "Portable Computing Language";

// By `inflight tune` and `inflight bench kernels` (docs/performance/linear-layers.md). The files for AVX-VNNI and for
// AVX-512 without VNNI were timed on a machine that has all of the first's features.
constexpr TunedLinear kTable[] = {
    {kPocl, "3.1", "AMD", "avx2 fma f16c avx_vnni avx512 avx512_vnni", "linear_vnni.cl", "AMD EPYC (Zen 5)"},
    {kPocl, "3.1", "AMD", "avx2 fma f16c avx512 avx512_vnni", "linear_vnni_l2.cl", "AMD EPYC (Zen 4)"},
    {kPocl, "3.1", "", "avx2 fma f16c avx_vnni", "linear_avx_vnni.cl", "AMD EPYC (Zen 5)"},
    {kPocl, "3.1", "", "avx2 fma f16c avx512", "linear_avx2.cl", "AMD EPYC (Zen 5)"},
    {kPocl, "3.1", "", "avx2 fma f16c", "linear_avx2.cl", "AMD EPYC (Zen 3)"},
};

}  // namespace

std::span<const TunedLinear> tuned_linear_table() { return kTable; }

std::string tuned_linear_file(const DeviceInfo& info) {
  const std::string features = info.cpu.describe();
  for (const TunedLinear& entry : kTable) {
    if (info.platform == entry.platform && info.driver.starts_with(entry.driver) &&
        info.name.find(entry.name) != std::string::npos && features == entry.features) {
      return std::string(entry.file);
    }
  }
  return {};
}

}  // namespace inflight
