// SPDX-License-Identifier: Apache-2.0
// Which OpenCL devices there are and what each can do.   THREAD: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace inflight {

enum class DeviceType : int32_t { Cpu = 0, Gpu = 1, Other = 2 };
[[nodiscard]] const char* to_string(DeviceType type);  // "CPU"

// Instruction sets of the processor this program runs on, as the processor and the system report them.
struct HostCpuFeatures {
  bool avx2 = false;
  bool fma = false;
  bool f16c = false;
  bool avx_vnni = false;                       // 256 bits; and avx2
  bool avx512 = false;                         // F, BW, VL and DQ
  bool avx512_vnni = false;                    // and avx512
  bool amx_int8 = false;                       // and avx512_vnni; the system lets this process use tiles
  [[nodiscard]] std::string describe() const;  // "avx2 fma f16c"; empty: none of them
};
// Asks Linux for AMX's tiles, which it gives to the processes that ask (arch_prctl, since 5.16): all threads may use
// them then.
[[nodiscard]] HostCpuFeatures host_cpu_features();

struct DeviceInfo {
  int32_t index = 0;  // over all platforms, in the loader's order
  std::string name;
  std::string vendor;
  std::string platform;
  std::string driver;
  std::string version;     // "OpenCL 3.0 PoCL ..."
  std::string c_version;   // "OpenCL C 1.2 PoCL"
  std::string extensions;  // separated by spaces
  DeviceType type = DeviceType::Other;
  int32_t compute_units = 0;
  int32_t work_group_size_max = 0;
  size_t memory_bytes = 0;          // global memory; of the host's, what this process may use (base/memory_limit.h)
  size_t allocation_bytes_max = 0;  // of one buffer
  size_t local_memory_bytes = 0;
  bool fp16 = false;              // arithmetic on half; loading and storing halves works everywhere
  bool subgroups = false;         // cl_khr_subgroups
  bool integer_dot = false;       // cl_khr_integer_dot_product
  int32_t nvidia_capability = 0;  // 90: compute capability 9.0; 0: another maker's
  bool host_memory = false;       // shares the host's memory
  // Kernels become the host's own machine code and workers of one launch run at the same time: inline assembly, the
  // host's vector built-ins and waiting for each other work (PoCL; Intel's CPU runtime goes through SPIR, which knows
  // no constraints of x86 assembly, and interpreters go through nothing).
  bool host_code = false;
  // Work has to be cut finely: GPUs, which are kept busy by many work-items, and Mesa's llvmpipe, which ends a
  // work-item's loops after 65,535 iterations altogether (its LP_MAX_TGSI_LOOP_ITERATIONS) and goes on with wrong
  // results.
  bool small_items = false;
  HostCpuFeatures cpu;  // where host_code; else all false

  [[nodiscard]] bool has_extension(std::string_view extension) const;
};

// Every device of every platform. A platform that fails to answer is left out with a warning in the log.
// ERRORS: NoDevice, naming the package to install, when there is none at all.
[[nodiscard]] std::vector<DeviceInfo> list_devices();

// spec: an index, "gpu" or "cpu" (the one with the most compute units), or a part of the device's or platform's name,
// in any case. Empty: $INFLIGHT_DEVICE if set, else as gpu, else as cpu, else the first. ERRORS: NotFound listing what
// there is. REQUIRES: devices is not empty. LIFETIME: the result points into `devices`.
[[nodiscard]] const DeviceInfo& choose_device(std::span<const DeviceInfo> devices, std::string_view spec);

}  // namespace inflight
