// SPDX-License-Identifier: Apache-2.0
// The device layer on whatever OpenCL device there is: choosing by index and name, buffers and their ledger, builds
// with true messages, profiling, the bandwidth probe.
// Covers: device/device.cpp, device/device_info.cpp, device/buffer.cpp, device/bandwidth.cpp
// Covers: device/cl_status.cpp
#include "device/device.h"

#include <gtest/gtest.h>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <span>
#include <vector>

#include "device/bandwidth.h"
#include "device/buffer.h"
#include "device/program.h"
#include "support/expect_error.h"
#include "support/pretended_device.h"

namespace inflight {
namespace {

std::vector<DeviceInfo> three_devices() {
  std::vector<DeviceInfo> devices(3);
  for (int32_t i = 0; i < 3; ++i) devices[static_cast<size_t>(i)].index = i;
  devices[0].name = "pthread-haswell";
  devices[0].platform = "Portable Computing Language";
  devices[0].type = DeviceType::Cpu;
  devices[1].name = "Small GPU";
  devices[1].type = DeviceType::Gpu;
  devices[1].compute_units = 4;
  devices[2].name = "Large GPU";
  devices[2].type = DeviceType::Gpu;
  devices[2].compute_units = 64;
  return devices;
}

TEST(ChooseDevice, TakesIndexNameOrBestGpu) {
  ::unsetenv("INFLIGHT_DEVICE");
  const auto devices = three_devices();
  EXPECT_EQ(choose_device(devices, "").index, 2);
  EXPECT_EQ(choose_device(std::span(devices).first(1), "").index, 0);
  EXPECT_EQ(choose_device(devices, "1").index, 1);
  EXPECT_EQ(choose_device(devices, "small").index, 1);
  EXPECT_EQ(choose_device(devices, "portable").index, 0);
  EXPECT_EQ(choose_device(devices, "CPU").index, 0);
  EXPECT_EQ(choose_device(devices, "gpu").index, 2);
  ::setenv("INFLIGHT_DEVICE", "haswell", 1);
  EXPECT_EQ(choose_device(devices, "").index, 0);
  EXPECT_EQ(choose_device(devices, "2").index, 2);
  ::unsetenv("INFLIGHT_DEVICE");
}

TEST(ChooseDevice, ListsWhatThereIs) {
  const auto devices = three_devices();
  INFLIGHT_EXPECT_ERROR(ErrorCode::NotFound, "no device 'tpu'; there are: 0: pthread-haswell",
                        [&] { (void)choose_device(devices, "tpu"); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::NotFound, "no device 'gpu'",
                        [&] { (void)choose_device(std::span(devices).first(1), "gpu"); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::NotFound, "no device '3'", [&] { (void)choose_device(devices, "3"); });
}

TEST(DeviceInfo, ExtensionsAreWholeWords) {
  DeviceInfo info;
  info.extensions = "cl_khr_fp64 cl_khr_subgroups_x";
  EXPECT_TRUE(info.has_extension("cl_khr_fp64"));
  EXPECT_FALSE(info.has_extension("cl_khr_subgroups"));
}

TEST(Device, BuffersKeepTheLedger) {
  Device device = Device::open({});
  const size_t before = device.device_bytes();
  {
    Buffer<int32_t> numbers(device, "numbers", 1000);
    Buffer<int32_t> moved = std::move(numbers);
    EXPECT_EQ(device.device_bytes(), before + 4000);
    EXPECT_EQ(device.ledger().back().label, "numbers");
    std::vector<int32_t> values(1000);
    std::iota(values.begin(), values.end(), 7);
    moved.write(values);
    std::vector<int32_t> tail(10);
    moved.read(tail, 990);
    EXPECT_EQ(tail[9], 1006);
    Buffer<int32_t> copy(device, "copy", 1000);
    copy.clear();
    copy.memory().copy_from(moved.memory(), 4 * 500, 0, 40);
    std::vector<int32_t> head(11);
    copy.read_async(head).wait();
    EXPECT_EQ(head[0], 507);
    EXPECT_EQ(head[10], 0);
    const std::span<std::byte> mapped = copy.memory().map_for_write(0, 4);
    mapped[0] = std::byte{9};
    copy.memory().unmap(mapped);
    copy.read(std::span(head).first(1));
    EXPECT_EQ(head[0] & 0xFF, 9);
  }
  EXPECT_EQ(device.device_bytes(), before);
}

#if defined(__linux__)
// How many of its pages have memory, by the kernel's own word.
size_t resident_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t before = reinterpret_cast<uintptr_t>(bytes.data()) % page;
  const size_t span = before + bytes.size();
  std::vector<unsigned char> pages((span + page - 1) / page);
  EXPECT_EQ(::mincore(const_cast<std::byte*>(bytes.data()) - before, span, pages.data()), 0);
  return static_cast<size_t>(std::ranges::count_if(pages, [](unsigned char state) { return (state & 1U) != 0; }));
}

TEST(Device, PopulatesTheBeginOfABufferAndKeepsWhatItHolds) {
  Device device = Device::open({});
  if (!device.info().host_code) GTEST_SKIP() << device.info().name << " has memory of its own";
  constexpr size_t kBytes = size_t{64} << 20;
  Buffer<std::byte> buffer(device, "pages", kBytes);
  const std::vector<std::byte> written(100, std::byte{42});
  buffer.write(written, 1000);
  const std::span<const std::byte> memory = buffer.in_place();
  const std::span<const std::byte> first = memory.first(kBytes / 2), rest = memory.subspan(kBytes / 4 * 3);
  const size_t all = kBytes / 2 / static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_LT(resident_pages(first), all / 2) << "nothing to see: the memory was there already";
  buffer.memory().populate(kBytes / 2);
  EXPECT_GE(resident_pages(first), all);
  EXPECT_EQ(resident_pages(rest), 0U);
  buffer.memory().populate(2 * kBytes);  // no more than there is
  EXPECT_GT(resident_pages(rest), 0U);
  std::vector<std::byte> read(written.size());
  buffer.read(read, 1000);
  EXPECT_EQ(read, written);
}
#endif

TEST(Device, RefusesABufferThatIsTooLargeAndNamesIt) {
  Device device = Device::open({});
  INFLIGHT_EXPECT_ERROR(ErrorCode::OutOfMemory, "huge takes",
                        [&] { Buffer<std::byte>(device, "huge", device.info().allocation_bytes_max + 1); });
}

TEST(Device, UnknownSpecNamesTheDevices) {
  INFLIGHT_EXPECT_ERROR(ErrorCode::NotFound, list_devices()[0].name,
                        [] { (void)Device::open({.spec = "no such device"}); });
}

TEST(Device, ProfilesLaunchesInOrder) {
  Device device = Device::open({.profile = true});
  const Program program(device, {.files = {"bandwidth.cl"}, .options = ""});
  Buffer<float> data(device, "data", 16 * 8), sums(device, "sums", 1);
  std::vector<float> ones(16 * 8, 1.0F), sum(1);
  data.write(ones);
  Kernel kernel(program, "read_bandwidth");
  kernel.set_all(sums, data, 8, 1);
  device.launch(kernel, {.global = 1, .local = 1});
  device.launch(kernel, {.global = 1, .local = 1});
  sums.read(sum);
  EXPECT_EQ(sum[0], 128.0F);
  const auto records = device.take_profile();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].name, "read_bandwidth");
  EXPECT_LE(records[0].end_ns, records[1].start_ns);
  EXPECT_LE(records[0].start_ns, records[0].end_ns);
  EXPECT_NE(chrome_trace(records).find(R"("name":"read_bandwidth","ph":"X")"), std::string::npos);
  EXPECT_TRUE(device.take_profile().empty());
}

TEST(Device, TellsWhenCommandsWereDone) {
  Device device = Device::open({});
  const SteadyClock clock;
  Buffer<float> data(device, "data", size_t{1} << 22);
  std::vector<float> numbers(size_t{1} << 22, 1.0F);
  const TimeNs begin = clock.now();
  const Completion before = device.marker();
  std::future<TimeNs> first = before.completion_time();
  const Completion read = data.read_async(numbers);
  std::future<TimeNs> last = read.completion_time();
  read.wait();
  ASSERT_EQ(last.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  const TimeNs first_time = first.get(), last_time = last.get();
  EXPECT_LE(begin, first_time);
  EXPECT_LT(first_time, last_time);  // 16 MiB lie between them
  EXPECT_LE(last_time, clock.now());
}

TEST(Device, MeasuresItsReadBandwidth) {
  Device device = Device::open({});
  const double rate = measure_read_bandwidth(device);
  EXPECT_GT(rate, 1e8);
  EXPECT_LT(rate, 1e14);
}

TEST(Device, MeasuresWithinWhatOneBufferMayHold) {
  Device device = test::open_as_gpu();
  test::info_of(device).allocation_bytes_max = size_t{5} << 20;
  EXPECT_GT(measure_read_bandwidth(device), 1e8);
}

}  // namespace
}  // namespace inflight
