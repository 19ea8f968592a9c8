// SPDX-License-Identifier: Apache-2.0
// Included before every file of the WebAssembly build: what Debian 12's libc++ 16 for wasm32-wasi leaves out of the
// standard library because it is built for one thread, without files and (as all of libc++ 16) without from_chars() of
// floating-point numbers.
#pragma once

#define JSON_HAS_FILESYSTEM 0
#define JSON_HAS_EXPERIMENTAL_FILESYSTEM 0

#ifdef __cplusplus
#include <charconv>
#include <cstdlib>
#include <string>
#include <system_error>

namespace std {

// One thread: nobody else holds it.
struct mutex {
  void lock() {}
  void unlock() {}
};
template <typename... Mutexes>
struct scoped_lock {
  explicit scoped_lock(Mutexes&...) {}
  ~scoped_lock() {}
};

// musl's strtod() rounds correctly, as libstdc++'s from_chars() does; what it takes beyond that is refused before.
inline from_chars_result from_chars(const char* first, const char* last, double& value) {
  const string text(first, last);
  const size_t digit = text.find_first_not_of('-');
  if (digit > 1 || digit == string::npos || string_view("0123456789.").find(text[digit]) == string_view::npos) {
    return {first, errc::invalid_argument};
  }
  char* end = nullptr;
  value = strtod(text.c_str(), &end);
  if (end == text.c_str()) return {first, errc::invalid_argument};
  return {first + (end - text.c_str()), errc()};
}

}  // namespace std
#endif
