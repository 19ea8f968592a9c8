// SPDX-License-Identifier: Apache-2.0
// GBNF, llama.cpp's grammar notation:  name ::= "text" [a-z] other-rule (group)* | ...   # comment
#pragma once

#include <string_view>

#include "text/grammar_program.h"

namespace inflight::grammar {

// The text is what rule "root" gives.  ERRORS: InvalidArgument "grammar line N: ..."; those of Budget::charge().
[[nodiscard]] Program compile_gbnf(std::string_view source, Budget& budget);

}  // namespace inflight::grammar
