// SPDX-License-Identifier: Apache-2.0
// Python's string operations that several methods and filters share. Text is UTF-8; widths count characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace inflight::jinja {

// ERRORS (these two, and those below that make a text): InvalidArgument for more than limits::kTemplateValueBytesMax.
void require_size(size_t bytes);
void add_text(std::string& out, std::string_view part);

// Where `part` begins in `text` first, or last; npos where it is nowhere.   COST: O(bytes of both), whatever they are,
// where std::string_view::find() takes their product.
[[nodiscard]] size_t find_first(std::string_view text, std::string_view part);
[[nodiscard]] size_t find_last(std::string_view text, std::string_view part);

// The parts between separators, cut at most `count` times (< 0: everywhere), from the right end where asked.
// REQUIRES: separator is not empty.   LIFETIME (these three): views of `text`.   ERRORS: InvalidArgument for too many.
[[nodiscard]] std::vector<std::string_view> split_text(std::string_view text, std::string_view separator, int64_t count,
                                                       bool from_right);
// The same at runs of white space; no empty parts.
[[nodiscard]] std::vector<std::string_view> split_white_space(std::string_view text, int64_t count, bool from_right);
// str.splitlines(keep_ends)
[[nodiscard]] std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

// The first `count` (< 0: all) occurrences replaced.
[[nodiscard]] std::string replace_text(std::string_view text, std::string_view old_part, std::string_view new_part,
                                       int64_t count);
// For HTML: & < > ' and " by their names.
[[nodiscard]] std::string escape_text(std::string_view text);
[[nodiscard]] std::string pad_text(std::string_view text, size_t width, std::string_view fill, bool left, bool right);
// First character in upper case, the rest in lower case.
[[nodiscard]] std::string capitalize_text(std::string_view text);
// str.title(): so every run of letters.
[[nodiscard]] std::string title_text(std::string_view text);

}  // namespace inflight::jinja
