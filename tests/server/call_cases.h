// SPDX-License-Identifier: Apache-2.0
// Answers with calls and what the server's parser must make of them, however they are cut.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "server/tool_call_parser.h"

namespace inflight::server {

struct AnswerCase {
  std::string text, shown;
  std::vector<std::string> calls;  // name and arguments
};

// Checks it in steps of each length.   tools: as ToolCallParser has them.
inline void expect_calls_of(const AnswerCase& wanted, const Json& tools, const CallMarks& marks) {
  for (size_t step = 1; step <= std::max<size_t>(1, wanted.text.size()); ++step) {
    ToolCallParser parser(tools, marks);
    std::string shown;
    std::vector<ToolCall> calls;
    const auto take = [&](const AnswerParts& found) {
      for (const AnswerPart& part : found.parts) {
        shown += part.text;
        if (part.call) append_delta(*part.call, calls);
      }
    };
    for (size_t i = 0; i < wanted.text.size(); i += step) take(parser.push(wanted.text.substr(i, step)));
    take(parser.finish());
    EXPECT_EQ(shown, wanted.shown) << wanted.text << " in steps of " << step;
    std::vector<std::string> found;
    for (const ToolCall& call : calls) found.push_back(call.name + call.arguments);
    EXPECT_EQ(found, wanted.calls) << wanted.text << " in steps of " << step;
  }
}

}  // namespace inflight::server
