// SPDX-License-Identifier: Apache-2.0
// Tests of errors: that there is one, of which kind, and what it says.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace inflight::test {

// The message of the Error that `function` throws; fails the test when there is none or it has
// another code.
template <typename Function>
std::string error_of(ErrorCode code, Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace inflight::test

// `function` throws Error{code}; its message is one line that contains `text`.
#define INFLIGHT_EXPECT_ERROR(code, text, function)                                  \
  do {                                                                               \
    const std::string inflight_message = ::inflight::test::error_of(code, function); \
    EXPECT_NE(inflight_message.find(text), std::string::npos) << inflight_message;   \
    EXPECT_EQ(inflight_message.find('\n'), std::string::npos) << inflight_message;   \
  } while (false)
