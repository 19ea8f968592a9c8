// SPDX-License-Identifier: Apache-2.0
#include "device/buffer.h"

#include <algorithm>
#include <cstdint>
#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "base/log.h"
#include "base/math.h"
#include "base/parallel.h"
#include "device/cl.h"

namespace inflight {
namespace {

// Asks Linux for huge pages there before anything has been touched: with pages of 4 KiB a processor
// reads weights 10 to 20 % slower. A refusal costs nothing but that.
void want_huge_pages([[maybe_unused]] std::span<const std::byte> bytes) {
#if defined(__linux__)
  constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first = align_up(address, kHugePage), end = (address + bytes.size()) / kHugePage * kHugePage;
  if (first >= end) return;
  auto* const begin = const_cast<std::byte*>(bytes.data()) + (first - address);
  static_cast<void>(madvise(begin, end - first, MADV_HUGEPAGE));
#endif
}

// Linux 5.14; before, and where there is no memory, what is missing is found when it is written.
void populate_pages([[maybe_unused]] std::span<std::byte> bytes) {
#if defined(__linux__) && defined(MADV_POPULATE_WRITE)
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  std::byte* const first = bytes.data() - reinterpret_cast<uintptr_t>(bytes.data()) % page;
  static_cast<void>(madvise(first, static_cast<size_t>(bytes.data() + bytes.size() - first), MADV_POPULATE_WRITE));
#endif
}

// PoCL takes a buffer's memory when it is first used, and ends the process where there is none.
bool has_address_space([[maybe_unused]] size_t bytes) {
#if defined(__linux__)
  void* const probe = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (probe == MAP_FAILED) return false;
  munmap(probe, bytes);
#endif
  return true;
}

}  // namespace

// They delegate, so that what fails in here is followed by the destructor.
DeviceMemory::DeviceMemory(Device& device, std::string label, size_t bytes) : DeviceMemory() {
  allocate(device, std::move(label), CL_MEM_READ_WRITE, nullptr, bytes);
  constexpr size_t kWorthwhile = size_t{4} << 20;
  if (!device.info().host_code || bytes < kWorthwhile) return;
  const std::span<std::byte> mapped = map_for_write(0, bytes);
  want_huge_pages(mapped);
  unmap(mapped);
}

DeviceMemory::DeviceMemory(Device& device, std::string label, std::span<const std::byte> contents) : DeviceMemory() {
  if (!device.info().host_code) {
    allocate(device, std::move(label), CL_MEM_READ_ONLY, nullptr, contents.size());
    write(0, contents);
    return;
  }
  want_huge_pages(contents);
  allocate(device, std::move(label), CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, contents.data(), contents.size());
}

void DeviceMemory::allocate(Device& device, std::string label, uint64_t flags, const std::byte* contents,
                            size_t bytes) {
  state_ = &device.state();
  bytes_ = bytes;
  label_ = std::move(label);
  INFLIGHT_CHECK(bytes > 0);
  const DeviceInfo& info = state_->info;
  if (bytes > info.allocation_bytes_max) {
    fail(ErrorCode::OutOfMemory, "{} takes {} bytes, device '{}' allows {} in one buffer", label_, bytes, info.name,
         info.allocation_bytes_max);
  }
  if (info.host_code && contents == nullptr && !has_address_space(bytes)) {
    fail(ErrorCode::OutOfMemory, "{} takes {} bytes, which the system does not give this process (ulimit -v)", label_,
         bytes);
  }
  cl_int status = CL_SUCCESS;
  raw_ = clCreateBuffer(state_->context(), flags, bytes, const_cast<std::byte*>(contents), &status);
  cl_check(status, "clCreateBuffer", fmt::format("{}, {} bytes", label_, bytes));
  const std::lock_guard lock(state_->ledger_mutex);
  state_->ledger.push_back({label_, bytes});
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  if (this != &other) {
    release();
    state_ = std::exchange(other.state_, nullptr);
    raw_ = std::exchange(other.raw_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    label_ = std::exchange(other.label_, {});
    in_place_ = std::exchange(other.in_place_, {});
  }
  return *this;
}

DeviceMemory::~DeviceMemory() { release(); }

void DeviceMemory::release() noexcept {
  if (raw_ == nullptr) return;
  if (!in_place_.empty()) {
    static_cast<void>(clEnqueueUnmapMemObject(state_->queue(), raw_, in_place_.data(), 0, nullptr, nullptr));
    in_place_ = {};
  }
  const cl_int status = clReleaseMemObject(raw_);
  raw_ = nullptr;
  if (status != CL_SUCCESS) log(LogLevel::Warning, "releasing {}: {}", label_, cl_status_name(status));
  const std::lock_guard lock(state_->ledger_mutex);
  auto& ledger = state_->ledger;
  const auto entry = std::find_if(ledger.begin(), ledger.end(), [this](const LedgerEntry& candidate) {
    return candidate.bytes == bytes_ && candidate.label == label_;
  });
  if (entry != ledger.end()) ledger.erase(entry);
}

void DeviceMemory::populate(size_t bytes) {
  if (!state_->info.host_code || bytes == 0) return;
  static constexpr size_t kPiece = size_t{8} << 20;
  const std::span<std::byte> mapped = map(CL_MAP_READ | CL_MAP_WRITE, 0, std::min(bytes, bytes_));
  in_parallel(div_ceil(mapped.size(), kPiece), [mapped](size_t piece) {
    populate_pages(mapped.subspan(piece * kPiece, std::min(kPiece, mapped.size() - piece * kPiece)));
  });
  unmap(mapped);
}

void DeviceMemory::write(size_t offset, std::span<const std::byte> from) {
  INFLIGHT_CHECK(offset <= bytes_ && from.size() <= bytes_ - offset);
  if (from.empty()) return;
  cl_check(clEnqueueWriteBuffer(state_->queue(), raw_, CL_TRUE, offset, from.size(), from.data(), 0, nullptr, nullptr),
           "clEnqueueWriteBuffer", label_);
}

void DeviceMemory::write_async(size_t offset, std::span<const std::byte> from) {
  INFLIGHT_CHECK(offset <= bytes_ && from.size() <= bytes_ - offset);
  if (from.empty()) return;
  cl_check(clEnqueueWriteBuffer(state_->queue(), raw_, CL_FALSE, offset, from.size(), from.data(), 0, nullptr, nullptr),
           "clEnqueueWriteBuffer", label_);
}

void DeviceMemory::read(size_t offset, std::span<std::byte> to) const {
  INFLIGHT_CHECK(offset <= bytes_ && to.size() <= bytes_ - offset);
  if (to.empty()) return;
  cl_check(clEnqueueReadBuffer(state_->queue(), raw_, CL_TRUE, offset, to.size(), to.data(), 0, nullptr, nullptr),
           "clEnqueueReadBuffer", label_);
}

Completion DeviceMemory::read_async(size_t offset, std::span<std::byte> to) const {
  INFLIGHT_CHECK(!to.empty() && offset <= bytes_ && to.size() <= bytes_ - offset);
  cl_event event = nullptr;
  cl_check(clEnqueueReadBuffer(state_->queue(), raw_, CL_FALSE, offset, to.size(), to.data(), 0, nullptr, &event),
           "clEnqueueReadBuffer", label_);
  return Completion(event);
}

void DeviceMemory::clear(size_t offset, size_t bytes) {
  INFLIGHT_CHECK(offset <= bytes_ && bytes <= bytes_ - offset);
  if (bytes == 0) return;
  const uint8_t zero = 0;
  cl_check(clEnqueueFillBuffer(state_->queue(), raw_, &zero, 1, offset, bytes, 0, nullptr, nullptr),
           "clEnqueueFillBuffer", label_);
}

void DeviceMemory::copy_from(const DeviceMemory& source, size_t source_offset, size_t offset, size_t bytes) {
  INFLIGHT_CHECK(source_offset <= source.bytes_ && bytes <= source.bytes_ - source_offset);
  INFLIGHT_CHECK(offset <= bytes_ && bytes <= bytes_ - offset);
  if (bytes == 0) return;
  cl_check(clEnqueueCopyBuffer(state_->queue(), source.raw_, raw_, source_offset, offset, bytes, 0, nullptr, nullptr),
           "clEnqueueCopyBuffer", label_);
}

std::span<std::byte> DeviceMemory::map(uint64_t flags, size_t offset, size_t bytes) {
  INFLIGHT_CHECK(offset <= bytes_ && bytes <= bytes_ - offset && bytes > 0);
  cl_int status = CL_SUCCESS;
  void* const address =
      clEnqueueMapBuffer(state_->queue(), raw_, CL_TRUE, flags, offset, bytes, 0, nullptr, nullptr, &status);
  cl_check(status, "clEnqueueMapBuffer", label_);
  return {static_cast<std::byte*>(address), bytes};
}

std::span<std::byte> DeviceMemory::map_for_write(size_t offset, size_t bytes) {
  return map(CL_MAP_WRITE_INVALIDATE_REGION, offset, bytes);
}

void DeviceMemory::unmap(std::span<std::byte> mapped) {
  cl_check(clEnqueueUnmapMemObject(state_->queue(), raw_, mapped.data(), 0, nullptr, nullptr),
           "clEnqueueUnmapMemObject", label_);
}

std::span<std::byte> DeviceMemory::in_place() {
  if (state_->info.host_code && in_place_.empty()) in_place_ = map(CL_MAP_READ | CL_MAP_WRITE, 0, bytes_);
  return in_place_;
}

}  // namespace inflight
