// SPDX-License-Identifier: Apache-2.0
#include "device/program.h"

#include <xxhash.h>

#include <optional>

#include "device/binary_cache.h"
#include "device/cl.h"

namespace inflight {
namespace {

// Each file as two strings: a #line that gives the build log its name, and the text.
std::string whole_source(const ProgramSource& source) {
  std::string text;
  const auto append = [&text](const std::string& file) {
    text += fmt::format("#line 1 \"{}\"\n", file);
    text += kernel_source(file);
    text += '\n';
  };
  append("prelude.cl");
  for (const std::string& file : source.files) append(file);
  return text;
}

// OpenCL's own build; the program is not usable when it throws.
void build(cl_program program, cl_device_id device, const std::string& options) {
  const cl_int status = clBuildProgram(program, 1, &device, options.c_str(), nullptr, nullptr);
  if (status == CL_SUCCESS) return;
  size_t bytes = 0;
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes);
  std::string log(bytes, '\0');
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr);
  constexpr size_t kLogBytesMax = 4000;
  log.resize(std::min(log.find('\0'), std::min(log.size(), kLogBytesMax)));
  fail_cl(status, "clBuildProgram", log);
}

// Empty: the driver gives none, which it may.
std::vector<std::byte> binary_of(cl_program program) {
  size_t bytes = 0;
  if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(bytes), &bytes, nullptr) != CL_SUCCESS) return {};
  std::vector<std::byte> binary(bytes);
  std::byte* address = binary.data();
  const cl_int status = clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(address), &address, nullptr);
  return status == CL_SUCCESS ? binary : std::vector<std::byte>();
}

// Null: the driver does not take this binary.
cl_program program_of_binary(DeviceState& state, std::span<const std::byte> binary, const std::string& options) {
  const cl_device_id device = state.device();
  const size_t bytes = binary.size();
  const auto* address = reinterpret_cast<const unsigned char*>(binary.data());
  cl_int loaded = CL_SUCCESS, status = CL_SUCCESS;
  const cl_program program = clCreateProgramWithBinary(state.context(), 1, &device, &bytes, &address, &loaded, &status);
  if (status == CL_SUCCESS && loaded == CL_SUCCESS &&
      clBuildProgram(program, 1, &device, options.c_str(), nullptr, nullptr) == CL_SUCCESS) {
    return program;
  }
  if (program != nullptr) clReleaseProgram(program);
  return nullptr;
}

// Mesa's rusticl emulates fma() by branches, lane by lane, over which its compiler takes minutes: programs are built
// with prelude.cl's own there, and with the smallest tiles.
std::string build_options(const DeviceInfo& info, const ProgramSource& source) {
  const bool emulated_fma = info.platform == "rusticl";
  return std::string("-cl-std=CL1.2 -w ") + (emulated_fma ? "-D EXACT_FMA=1 -D LINEAR_ROWS=1 " : "") + source.options;
}

}  // namespace

std::string program_cache_key(const DeviceInfo& info, const ProgramSource& source) {
  const std::string key = fmt::format("{}|{}|{}|{}|{}|{}|{}", info.platform, info.name, info.version, info.driver,
                                      info.cpu.describe(), build_options(info, source), whole_source(source));
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

Program::Program(Device& device, const ProgramSource& source) : device_(&device) {
  DeviceState& state = device.state();
  const std::string text = whole_source(source);
  const std::string options = build_options(state.info, source);
  const BinaryCache cache(cache_folder());
  const std::string name = program_cache_key(state.info, source);
  if (const std::optional<std::vector<std::byte>> binary = cache.find(name)) {
    raw_ = program_of_binary(state, *binary, options);
    if (raw_ != nullptr) return;
    cache.warn_damaged(name);
  }
  if (state.on_compile) state.on_compile();
  const char* characters = text.data();
  const size_t length = text.size();
  cl_int status = CL_SUCCESS;
  raw_ = clCreateProgramWithSource(state.context(), 1, &characters, &length, &status);
  cl_check(status, "clCreateProgramWithSource");
  try {
    build(raw_, state.device(), options);
    if (const std::vector<std::byte> binary = binary_of(raw_); !binary.empty()) cache.store(name, binary);
  } catch (...) {
    clReleaseProgram(raw_);
    throw;
  }
}

Program::Program(Program&& other) noexcept : device_(other.device_), raw_(std::exchange(other.raw_, nullptr)) {}

Program::~Program() {
  if (raw_ != nullptr) clReleaseProgram(raw_);
}

Kernel::Kernel(const Program& program, std::string name) : name_(std::move(name)) {
  cl_int status = CL_SUCCESS;
  raw_ = clCreateKernel(program.raw(), name_.c_str(), &status);
  cl_check(status, "clCreateKernel", name_);
}

Kernel::Kernel(Kernel&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)), name_(std::move(other.name_)) {}

Kernel& Kernel::operator=(Kernel&& other) noexcept {
  if (this != &other) {
    release();
    raw_ = std::exchange(other.raw_, nullptr);
    name_ = std::move(other.name_);
  }
  return *this;
}

Kernel::~Kernel() { release(); }

void Kernel::release() noexcept {
  if (raw_ != nullptr) clReleaseKernel(raw_);
  raw_ = nullptr;
}

void Kernel::set(uint32_t index, const DeviceMemory& memory) {
  const cl_mem raw = memory.raw();
  set_bytes(index, std::as_bytes(std::span(&raw, 1)));
}

void Kernel::set_bytes(uint32_t index, std::span<const std::byte> value) {
  const cl_int status = clSetKernelArg(raw_, index, value.size(), value.data());
  // Thousands of arguments are set in a step: only one that is refused has its text made.
  if (status != CL_SUCCESS) cl_check(status, "clSetKernelArg", fmt::format("{} argument {}", name_, index));
}

}  // namespace inflight
