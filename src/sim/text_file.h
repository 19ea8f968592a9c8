// SPDX-License-Identifier: Apache-2.0
// Whole files in and out, with errors that name them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace inflight {

// ERRORS: NotFound, Io, InvalidArgument (larger than limits::kTraceBytesMax).
[[nodiscard]] std::string read_text_file(const std::string& path);
// Replaces what was there. A file that could not be written to its end is removed.  ERRORS: Io.
void write_text_file(const std::string& path, std::string_view text);

}  // namespace inflight
