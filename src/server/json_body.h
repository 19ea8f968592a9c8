// SPDX-License-Identifier: Apache-2.0
// JSON from clients: strict, with limits, and with errors that say where.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace inflight::server {

using Json = nlohmann::ordered_json;  // keys stay in the order given: templates print tools in it

inline constexpr int kJsonDepthMax = 128;
inline constexpr size_t kJsonComparisonsMax = 100'000'000;  // of members' names: one object of 14,000, or more smaller

// ERRORS: ApiError 400: no valid JSON (position, reason; UTF-8 is checked too), deeper than kJsonDepthMax, more than
// kJsonComparisonsMax, no object.
[[nodiscard]] Json parse_json_object(std::string_view text);

// JSON within a client's text, or a model's.  Discarded: it is none, or beyond those limits.
[[nodiscard]] Json parse_json(std::string_view text);

// Compact text; what is no UTF-8 becomes U+FFFD.
[[nodiscard]] std::string to_text(const Json& value);

// An integer, also one with ".0" behind it.
[[nodiscard]] bool is_whole(const Json& value);

// A short form of `value` for an error message: "\"abc\"", "5.5", "an array".
[[nodiscard]] std::string describe(const Json& value);

// ERRORS: ApiError 400 naming the field, what it is and what is expected.
[[noreturn]] void refuse(std::string_view path, const Json& value, std::string_view expected);
void check_object(std::string_view path, const Json& value);
void check_array(std::string_view path, const Json& value);

// ERRORS: ApiError 400 naming the first member of `object` that is none of `allowed`.
void check_names(const Json& object, std::initializer_list<std::string_view> allowed, const std::string& path = "");

// A text that goes through the C interface, where NUL ends it. ERRORS: ApiError 400 naming the field.
void refuse_nul(const std::string& field, std::string_view text);

// ERRORS: ApiError 400 where `field` has more than `most` entries.
void check_count(const std::string& field, size_t count, size_t most);

// Of a UTF-8 text.
[[nodiscard]] size_t character_count(std::string_view text);

// A member of `object`; null: absent, or null.   LIFETIME: as the object's.
[[nodiscard]] const Json* find(const Json& object, const char* key);

// A member that is true or false; `otherwise` where there is none.   path: the object's place in the request, "" if it
// is all of it. ERRORS: ApiError 400: something else.
[[nodiscard]] bool flag_at(const Json& object, const char* key, const std::string& path, bool otherwise = false);

// The text of a member.   path: the object's place in the request, for errors.
// ERRORS: ApiError 400: missing, or no string.   LIFETIME: as the object's.
[[nodiscard]] const std::string& text_at(const Json& object, const char* key, const std::string& path);

}  // namespace inflight::server
