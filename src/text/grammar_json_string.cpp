// SPDX-License-Identifier: Apache-2.0
#include "text/grammar_json_string.h"

#include <fmt/format.h>

#include <map>

#include "text/grammar_program.h"
#include "text/grammar_regex.h"

namespace inflight::grammar {
namespace {

constexpr std::string_view kDate =
    "[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))";
constexpr std::string_view kTime =
    R"(([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]))";
constexpr std::string_view kIpv4 =
    R"(((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9]))";

// Labels of at most 63 characters, 253 in all: four labels of up to 61, or eight of up to 29.
std::string hostname() {
  constexpr std::string_view kLong = "[A-Za-z0-9](-?[A-Za-z0-9]){0,30}";
  constexpr std::string_view kShort = "[A-Za-z0-9](-?[A-Za-z0-9]){0,14}";
  return fmt::format(R"({0}(\.{0}){{0,3}}|{1}(\.{1}){{0,7}})", kLong, kShort);
}

// "::" stands for one group or more; an IPv4 address at the end only behind "::" or "::ffff:".
std::string ipv6() {
  std::string all = "([0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}|([0-9A-Fa-f]{1,4}:){1,7}:|:(:[0-9A-Fa-f]{1,4}){1,7}|::";
  for (int before = 1; before <= 6; ++before)
    all += fmt::format("|([0-9A-Fa-f]{{1,4}}:){{{}}}(:[0-9A-Fa-f]{{1,4}}){{1,{}}}", before, 7 - before);
  return fmt::format("{}|::([Ff]{{4}}:)?{}", all, kIpv4);
}

// RFC 3339, appendix A.
std::string duration() {
  constexpr std::string_view kTimeParts =
      "([0-9]{1,6}H([0-9]{1,6}M([0-9]{1,6}S)?)?|[0-9]{1,6}M([0-9]{1,6}S)?|[0-9]{1,6}S)";
  constexpr std::string_view kDateParts =
      "([0-9]{1,6}Y([0-9]{1,6}M([0-9]{1,6}D)?)?|[0-9]{1,6}M([0-9]{1,6}D)?|[0-9]{1,6}D)";
  return fmt::format("P({0}(T{1})?|T{1}|[0-9]{{1,6}}W)", kDateParts, kTimeParts);
}

// RFC 3986, any scheme; hosts are names or IPv4 addresses.
std::string uri() {
  constexpr std::string_view kInPath = "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
  constexpr std::string_view kBeyondPath = "([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*";
  constexpr std::string_view kLabel = "[A-Za-z0-9](-?[A-Za-z0-9])*";
  const std::string authority = fmt::format(R"(([A-Za-z0-9._~!$&*+,;=:-]+@)?{0}(\.{0})*(:[0-9]{{1,5}})?)", kLabel);
  return fmt::format("[A-Za-z][A-Za-z0-9+.-]*:(//{0}(/{1}*)*|/?{1}+(/{1}*)*)(\\?{2})?(#{2})?", authority, kInPath,
                     kBeyondPath);
}

std::map<std::string, std::string, std::less<>> all_formats() {
  std::map<std::string, std::string, std::less<>> formats{
      {"date", std::string(kDate)},
      {"time", std::string(kTime)},
      {"date-time", fmt::format("{}T{}", kDate, kTime)},
      {"duration", duration()},
      {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
      {"hostname", hostname()},
      {"ipv4", std::string(kIpv4)},
      {"ipv6", ipv6()},
      {"email", R"([A-Za-z0-9_+-]+(\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9]+(-[A-Za-z0-9]+)*(\.[A-Za-z0-9]+(-[A-Za-z0-9]+)*)+)"},
      {"uri", uri()},
  };
  for (auto& [format, texts] : formats) texts = "^(" + texts + ")$";
  return formats;
}

}  // namespace

std::string_view format_pattern(std::string_view format) {
  static const auto formats = all_formats();
  const auto found = formats.find(format);
  return found == formats.end() ? std::string_view() : found->second;
}

Dfa pattern_texts(std::string_view pattern, Budget& budget) {
  return texts_of(budget, [&](Builder& builder) {
    return parse_regex(builder, pattern, false,
                       [](Builder& target, const CharacterSet& set) { return target.characters(set); });
  });
}

Dfa listed_texts(const std::vector<std::string>& texts, Budget& budget) {
  return texts_of(budget, [&](Builder& builder) {
    std::vector<NodeId> choices;
    for (const std::string& text : texts) choices.push_back(builder.literal(text));
    return builder.any_of(std::move(choices));
  });
}

std::vector<std::string> patterns_of(const Json& schema) {
  std::vector<std::string> patterns;
  if (schema.contains("pattern")) patterns.push_back(schema["pattern"].get<std::string>());
  if (!schema.contains("format")) return patterns;
  const std::string_view of_format = format_pattern(schema["format"].get<std::string>());
  if (!of_format.empty()) patterns.emplace_back(of_format);
  return patterns;
}

Dfa texts_without(std::string_view mark, Budget& budget) {
  const auto texts = [&](bool with_mark) {
    return texts_of(budget, [&](Builder& builder) {
      const NodeId any = builder.repeat(builder.characters(CharacterSet().complement()), 0, std::nullopt);
      return with_mark ? builder.sequence({any, builder.literal(mark), any}) : any;
    });
  };
  return difference(texts(false), texts(true), budget);
}

Dfa string_texts(const Json& schema, const std::string& path, const SchemaRoot& root) {
  return string_texts(schema, path, root, pattern_texts("", root.budget));
}

Dfa string_texts(const Json& schema, const std::string& path, const SchemaRoot& root, Dfa texts) {
  const auto narrow_to = [&](auto&& narrowed) {
    if (auto found = kept(root, path, narrowed)) texts = std::move(*found);
  };
  for (const std::string& pattern : patterns_of(schema)) {
    narrow_to([&] { return intersection(texts, pattern_texts(pattern, root.budget), root.budget); });
  }
  const int64_t min = count_of(schema, "minLength", path).value_or(0);
  const auto max = count_of(schema, "maxLength", path);
  if (min > 0 || max) narrow_to([&] { return of_length(texts, min, max, root.budget); });
  return texts;
}

}  // namespace inflight::grammar
