// SPDX-License-Identifier: Apache-2.0
#include "device/device_info.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "base/log.h"
#include "base/memory_limit.h"
#include "device/cl.h"
#include "device/enumerate.h"

namespace inflight {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\0')) text.pop_back();
  text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
  return text;
}

// cl_nv_device_attribute_query: 10 * major + minor.
int32_t nvidia_capability(const cl::Device& device) {
  constexpr cl_device_info kMajor = 0x4000, kMinor = 0x4001;
  cl_uint major = 0, minor = 0;
  if (clGetDeviceInfo(device(), kMajor, sizeof(major), &major, nullptr) != CL_SUCCESS) return 0;
  if (clGetDeviceInfo(device(), kMinor, sizeof(minor), &minor, nullptr) != CL_SUCCESS) return 0;
  return static_cast<int32_t>(10 * major + minor);
}

DeviceInfo describe(const cl::Device& device, const cl::Platform& platform) {
  DeviceInfo info;
  info.name = trimmed(device.getInfo<CL_DEVICE_NAME>());
  info.vendor = trimmed(device.getInfo<CL_DEVICE_VENDOR>());
  info.platform = trimmed(platform.getInfo<CL_PLATFORM_NAME>());
  info.driver = trimmed(device.getInfo<CL_DRIVER_VERSION>());
  info.version = trimmed(device.getInfo<CL_DEVICE_VERSION>());
  info.c_version = trimmed(device.getInfo<CL_DEVICE_OPENCL_C_VERSION>());
  info.extensions = trimmed(device.getInfo<CL_DEVICE_EXTENSIONS>());
  const cl_device_type type = device.getInfo<CL_DEVICE_TYPE>();
  info.type = (type & CL_DEVICE_TYPE_GPU) != 0   ? DeviceType::Gpu
              : (type & CL_DEVICE_TYPE_CPU) != 0 ? DeviceType::Cpu
                                                 : DeviceType::Other;
  info.compute_units = static_cast<int32_t>(device.getInfo<CL_DEVICE_MAX_COMPUTE_UNITS>());
  info.work_group_size_max = static_cast<int32_t>(device.getInfo<CL_DEVICE_MAX_WORK_GROUP_SIZE>());
  info.memory_bytes = device.getInfo<CL_DEVICE_GLOBAL_MEM_SIZE>();
  info.allocation_bytes_max = device.getInfo<CL_DEVICE_MAX_MEM_ALLOC_SIZE>();
  info.local_memory_bytes = device.getInfo<CL_DEVICE_LOCAL_MEM_SIZE>();
  info.fp16 = info.has_extension("cl_khr_fp16");
  info.subgroups = info.has_extension("cl_khr_subgroups");
  info.integer_dot = info.has_extension("cl_khr_integer_dot_product");
  if (info.has_extension("cl_nv_device_attribute_query")) info.nvidia_capability = nvidia_capability(device);
  info.host_memory = device.getInfo<CL_DEVICE_HOST_UNIFIED_MEMORY>() != 0;
  if (info.host_memory) info.memory_bytes = std::min(info.memory_bytes, static_cast<size_t>(host_memory_limit()));
  info.host_code = info.type == DeviceType::Cpu && info.platform == "Portable Computing Language";
  info.small_items = info.type != DeviceType::Cpu || info.platform == "rusticl";
  if (info.host_code) info.cpu = host_cpu_features();
  return info;
}

std::string names_of(const std::vector<cl::Platform>& platforms) {
  std::string text;
  for (const cl::Platform& platform : platforms) {
    cl_guard("", [&] { text += (text.empty() ? "" : ", ") + trimmed(platform.getInfo<CL_PLATFORM_NAME>()); });
  }
  return text;
}

std::string listing(std::span<const DeviceInfo> devices) {
  std::string text;
  for (const DeviceInfo& info : devices) {
    text += fmt::format("{}{}: {} ({})", text.empty() ? "" : ", ", info.index, info.name, info.platform);
  }
  return text;
}

// The one with the most compute units, of equals the first. Null: there is none of the type.
const DeviceInfo* largest_of(std::span<const DeviceInfo> devices, DeviceType type) {
  const DeviceInfo* largest = nullptr;
  for (const DeviceInfo& info : devices) {
    if (info.type == type && (largest == nullptr || info.compute_units > largest->compute_units)) largest = &info;
  }
  return largest;
}

#if defined(__x86_64__)
// Whether the processor has AMX's tiles and their products of int8, and Linux lets this process use them.
bool may_use_tiles() {
#if defined(__linux__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kTiles = 1U << 24U, kInt8 = 1U << 25U;  // leaf 7, edx
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTiles) == 0 || (d & kInt8) == 0) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h, since Linux 5.16
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

}  // namespace

const char* to_string(DeviceType type) {
  switch (type) {
    case DeviceType::Cpu:
      return "CPU";
    case DeviceType::Gpu:
      return "GPU";
    case DeviceType::Other:
      break;
  }
  return "other";
}

HostCpuFeatures host_cpu_features() {
  HostCpuFeatures features;
#if defined(__x86_64__)
  __builtin_cpu_init();
  features.avx2 = __builtin_cpu_supports("avx2") != 0;
  features.fma = __builtin_cpu_supports("fma") != 0;
  features.f16c = features.avx2 && __builtin_cpu_supports("f16c") != 0;
  features.avx_vnni = features.avx2 && __builtin_cpu_supports("avxvnni") != 0;
  features.avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                    __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  features.avx512_vnni = features.avx512 && __builtin_cpu_supports("avx512vnni") != 0;
  features.amx_int8 = features.avx512_vnni && may_use_tiles();
#endif
  return features;
}

std::string HostCpuFeatures::describe() const {
  std::string text;
  const auto add = [&text](bool has, const char* name) {
    if (has) text += (text.empty() ? "" : " ") + std::string(name);
  };
  add(avx2, "avx2");
  add(fma, "fma");
  add(f16c, "f16c");
  add(avx_vnni, "avx_vnni");
  add(avx512, "avx512");
  add(avx512_vnni, "avx512_vnni");
  add(amx_int8, "amx_int8");
  return text;
}

bool DeviceInfo::has_extension(std::string_view extension) const {
  return (" " + extensions + " ").find(" " + std::string(extension) + " ") != std::string::npos;
}

std::mutex& driver_entry() {
  static std::mutex entry;
  return entry;
}

std::vector<EnumeratedDevice> enumerate_devices() {
  const std::scoped_lock lock(driver_entry());
  std::vector<EnumeratedDevice> found;
  std::vector<cl::Platform> platforms;
  if (cl_uint count = 0; clGetPlatformIDs(0, nullptr, &count) == CL_SUCCESS && count > 0) {
    cl_guard("", [&] { return cl::Platform::get(&platforms); });
  }
  for (const cl::Platform& platform : platforms) {
    try {
      std::vector<cl::Device> devices;
      platform.getDevices(CL_DEVICE_TYPE_ALL, &devices);
      for (const cl::Device& device : devices) {
        if (device.getInfo<CL_DEVICE_AVAILABLE>() == 0 || device.getInfo<CL_DEVICE_COMPILER_AVAILABLE>() == 0) continue;
        EnumeratedDevice entry{describe(device, platform), device};
        entry.info.index = static_cast<int32_t>(found.size());
        found.push_back(std::move(entry));
      }
    } catch (const cl::Error& error) {
      if (error.err() == CL_DEVICE_NOT_FOUND) continue;
      log(LogLevel::Warning, "OpenCL platform left out: {}: {}", error.what(), cl_status_name(error.err()));
    }
  }
  if (found.empty() && platforms.empty()) {
    fail(ErrorCode::NoDevice, "no OpenCL device found; install a driver, for the CPU: apt install pocl-opencl-icd");
  }
  if (found.empty()) {
    fail(ErrorCode::NoDevice,
         "no OpenCL device found: the drivers ({}) offer none; PoCL's needs a cache folder that it can write: "
         "$POCL_CACHE_DIR, else $XDG_CACHE_HOME/pocl, else $HOME/.cache/pocl",
         names_of(platforms));
  }
  return found;
}

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> infos;
  for (EnumeratedDevice& entry : enumerate_devices()) infos.push_back(std::move(entry.info));
  return infos;
}

const DeviceInfo& choose_device(std::span<const DeviceInfo> devices, std::string_view spec) {
  INFLIGHT_CHECK(!devices.empty());
  if (spec.empty()) {
    const char* const variable = std::getenv("INFLIGHT_DEVICE");  // NOLINT(concurrency-mt-unsafe)
    if (variable != nullptr) spec = variable;
  }
  const std::string wanted = lower(spec);
  for (const DeviceType type : {DeviceType::Gpu, DeviceType::Cpu}) {
    if (!wanted.empty() && wanted != lower(to_string(type))) continue;
    if (const DeviceInfo* const info = largest_of(devices, type)) return *info;
  }
  if (spec.empty()) return devices.front();
  int32_t index = -1;
  const auto [end, status] = std::from_chars(spec.data(), spec.data() + spec.size(), index);
  if (status == std::errc() && end == spec.data() + spec.size()) {
    for (const DeviceInfo& info : devices) {
      if (info.index == index) return info;
    }
  } else {
    for (const DeviceInfo& info : devices) {
      if (lower(info.name).find(wanted) != std::string::npos ||
          lower(info.platform).find(wanted) != std::string::npos) {
        return info;
      }
    }
  }
  fail(ErrorCode::NotFound, "no device '{}'; there are: {}", spec, listing(devices));
}

}  // namespace inflight
