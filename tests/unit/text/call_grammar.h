// SPDX-License-Identifier: Apache-2.0
// The grammar of a call of "f" with such parameters, for tests of each form of arguments.
#pragma once

#include <string>

#include "text/grammar_tools.h"

namespace inflight::test {

// schema: of the parameters, an object.   strict: "true", "false".
inline std::string call_grammar_text(const std::string& schema, const std::string& strict, const ToolCallFormat& format,
                                     const Vocabulary& vocabulary) {
  const ToolRequest wanted = read_tool_request(R"({"tools": [{"function": {"name": "f", "strict": )" + strict +
                                               R"(, "parameters": )" + schema + R"(}}], "tool_choice": "required"})");
  return tool_grammar_text(wanted, format, vocabulary, CallsBegin::WithAnswer);
}

}  // namespace inflight::test
