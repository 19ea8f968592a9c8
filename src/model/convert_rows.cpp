// SPDX-License-Identifier: Apache-2.0
#include "model/convert_rows.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "base/error.h"
#include "base/math.h"
#include "model/quantize.h"

namespace inflight {
namespace {

constexpr size_t kThreadsMax = 16;

// Calls work(begin, end) for parts of [0, count) on all cores. The first exception of any part is
// thrown on.
template <typename Work>
void in_parallel(size_t count, const Work& work) {
  const size_t threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kThreadsMax);
  const size_t part = div_ceil(count, threads);
  std::vector<std::exception_ptr> errors(threads);
  {
    std::vector<std::jthread> workers;
    for (size_t i = 0; i < threads && i * part < count; ++i) {
      workers.emplace_back([&, i] {
        try {
          work(i * part, std::min(count, (i + 1) * part));
        } catch (...) {
          errors[i] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace

std::vector<std::byte> convert_rows(TensorType from, TensorType to, int64_t columns, std::span<const std::byte> rows,
                                    size_t first_row) {
  const size_t from_stride = row_bytes(from, columns), to_stride = row_bytes(to, columns);
  INFLIGHT_CHECK(rows.size() % from_stride == 0);
  const size_t count = rows.size() / from_stride;
  std::vector<std::byte> result(count * to_stride);
  in_parallel(count, [&](size_t begin, size_t end) {
    std::vector<float> numbers(static_cast<size_t>(columns));
    for (size_t row = begin; row < end; ++row) {
      dequantize_row(from, rows.subspan(row * from_stride, from_stride), numbers);
      try {
        quantize_row(to, numbers, std::span(result).subspan(row * to_stride, to_stride));
      } catch (const Error& error) {
        fail(error.code(), "row {}: {}", first_row + row, error.what());
      }
    }
  });
  return result;
}

}  // namespace inflight
