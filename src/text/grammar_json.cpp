// SPDX-License-Identifier: Apache-2.0
#include "text/grammar_json.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>

#include "base/error.h"
#include "base/limits.h"
#include "text/bounded_json.h"
#include "text/grammar_json_exclusive.h"
#include "text/grammar_json_merge.h"
#include "text/grammar_json_text.h"
#include "text/grammar_numbers.h"
#include "text/grammar_regex.h"

namespace inflight::grammar {
namespace {

// Texts of the formats that are more than annotations.
const std::map<std::string_view, std::string_view>& format_patterns() {
  static const std::map<std::string_view, std::string_view> all{
      {"date",
       R"(^[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))$)"},
      {"time", R"(^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$)"},
      {"date-time",
       R"(^[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8])))"
       R"(T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$)"},
      {"uuid", R"(^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$)"},
      {"ipv4",
       R"(^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])$)"},
      {"email",
       R"(^[A-Za-z0-9_+-]+(\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9]+(-[A-Za-z0-9]+)*(\.[A-Za-z0-9]+(-[A-Za-z0-9]+)*)+$)"},
  };
  return all;
}

class SchemaCompiler {
 public:
  // LIFETIME: all are borrowed.
  SchemaCompiler(const Json& root, Builder& builder, JsonText& text)
      : root_{root, builder.budget()}, builder_(builder), text_(text) {}

  NodeId document() {
    const NodeId whole = refer_to("#", root_.schema);
    while (!wanted_.empty()) {
      const Wanted next = std::move(wanted_.front());
      wanted_.pop_front();
      builder_.define(next.rule, schema(*next.schema, next.place));
    }
    return whole;
  }

 private:
  [[noreturn]] static void refuse(const std::string& path, const std::string& message) {
    fail(ErrorCode::Unsupported, "JSON schema, {}: {}", path, message);
  }
  [[noreturn]] static void malformed(const std::string& path, const std::string& message) {
    fail(ErrorCode::InvalidArgument, "JSON schema, {}: {}", path, message);
  }

  NodeId schema(const Json& given, const std::string& path) {
    if (++depth_ > limits::kGrammarDepthMax) malformed(path, "nested too deep");
    const NodeId node = schema_body(given, path);
    --depth_;
    return node;
  }

  NodeId schema_body(const Json& given, const std::string& path) {
    builder_.budget().charge(steps_of(given) + path.size() / Budget::kBytesPerStep);
    if (given.is_boolean()) return given.get<bool>() ? text_.value() : builder_.nothing();
    if (!given.is_object()) malformed(path, "a schema is an object or a boolean");
    check_keywords(given, path);
    if (given.contains("$ref")) return reference(given, path);
    if (given.contains("allOf")) return schema(flat_schema(given, path, root_), path);
    for (const char* const keyword : {"anyOf", "oneOf"}) {
      if (given.contains(keyword)) return choices(given, keyword, path);
    }
    if (given.contains("const")) return literals(given, Json::array({given["const"]}), path);
    if (given.contains("enum")) return literals(given, given["enum"], path);
    const Json flat = flat_schema(given, path, root_);
    std::vector<NodeId> alternatives;
    for (const std::string& type : types_of(flat, path)) alternatives.push_back(typed(flat, type, path));
    return builder_.any_of(std::move(alternatives));
  }

  void check_keywords(const Json& given, const std::string& path) {
    for (const auto& [keyword, value] : given.items()) {
      // One that is no fragment changes what references below it mean.
      const bool renames =
          keyword == "$id" && path != "#" && !(value.is_string() && value.get<std::string>().starts_with('#'));
      if (!renames && (is_annotation(keyword) || is_assertion(keyword))) continue;
      if (keyword == "uniqueItems" && value.is_boolean() && !value.get<bool>()) continue;
      if (keyword == "multipleOf" && value.is_number() && value.get<double>() == 1.0 && given.contains("type") &&
          given["type"] == "integer")
        continue;
      refuse(path, "keyword '" + keyword + "' is not supported");
    }
  }

  // A rule for each place that is referred to, so that schemas may refer to themselves. They are compiled one after the
  // other, not within one another: references may be chained as long as the schema is.
  NodeId refer_to(const std::string& place, const Json& schema) {
    const auto [rule, is_new] = refs_.try_emplace(place);
    if (is_new) {
      rule->second = builder_.new_rule(place);
      wanted_.push_back({rule->second, place, &schema});
    }
    return builder_.call(rule->second);
  }

  NodeId reference(const Json& given, const std::string& path) {
    const bool alone = std::ranges::none_of(
        given.items(), [](const auto& item) { return item.key() != "$ref" && !is_annotation(item.key()); });
    if (!given["$ref"].is_string()) malformed(path, "'$ref' must be a string");
    const std::string target = given["$ref"].get<std::string>();
    const Json& referred = resolve_reference(root_, target, path);
    if (!alone) {
      Json all = given;
      all.erase("$ref");
      return schema(merge_schemas(all, referred, path, root_), path);
    }
    return refer_to(target, referred);
  }

  NodeId choices(const Json& given, const std::string& keyword, const std::string& path) {
    const Json& list = given[keyword];
    if (!list.is_array() || list.empty()) malformed(path, "'" + keyword + "' must be a list of schemas");
    Json rest = given;
    rest.erase(keyword);
    const bool alone = std::ranges::all_of(rest.items(), [](const auto& item) { return is_annotation(item.key()); });
    const auto place_of = [&](size_t i) { return fmt::format("{}/{}/{}", path, keyword, i); };
    std::vector<Json> whole;
    for (size_t i = 0; i < list.size(); ++i)
      whole.push_back(alone ? list[i] : merge_schemas(rest, list[i], place_of(i), root_));
    std::vector<NodeId> alternatives;
    for (size_t i = 0; i < whole.size(); ++i) alternatives.push_back(schema(whole[i], place_of(i)));
    if (keyword == "oneOf") refuse_overlaps(whole, path);
    return builder_.any_of(std::move(alternatives));
  }

  // A document of one alternative must satisfy no other one.
  void refuse_overlaps(const std::vector<Json>& alternatives, const std::string& path) const {
    for (size_t i = 0; i < alternatives.size(); ++i) {
      for (size_t j = 0; j < alternatives.size(); ++j) {
        if (i == j || never_both(alternatives[i], alternatives[j], path, root_)) continue;
        refuse(path, fmt::format("keyword 'oneOf' is not supported where a document may satisfy two alternatives, here "
                                 "{} and {}; say 'anyOf' where that is meant",
                                 std::min(i, j), std::max(i, j)));
      }
    }
  }

  NodeId literals(const Json& given, const Json& values, const std::string& path) {
    if (!values.is_array() || values.empty()) malformed(path, "'enum' must be a list of values");
    for (const auto& item : given.items()) {
      const std::string& keyword = item.key();
      if (keyword != "const" && keyword != "enum" && keyword != "type" && !is_annotation(keyword)) {
        refuse(path, "keyword '" + keyword + "' beside 'enum' or 'const' is not supported");
      }
    }
    const auto types = types_of(given, path);
    const bool both = given.contains("const") && given.contains("enum");
    if (both && std::ranges::find(given["enum"], given["const"]) == given["enum"].end()) return builder_.nothing();
    std::vector<NodeId> alternatives;
    for (const Json& value : values) {
      const bool of_type = std::ranges::any_of(types, [&](const std::string& type) { return has_type(value, type); });
      if (of_type) alternatives.push_back(text_.constant(value));
    }
    return builder_.any_of(std::move(alternatives));
  }

  NodeId typed(const Json& given, const std::string& type, const std::string& path) {
    if (type == "null") return builder_.literal("null");
    if (type == "boolean") return builder_.any_of({builder_.literal("true"), builder_.literal("false")});
    if (type == "string") return string(given, path);
    if (type == "integer" || type == "number") return number(given, type == "integer", path);
    return type == "array" ? array(given, path) : object(given, path);
  }

  static int64_t count(const Json& given, const char* keyword, int64_t fallback, const std::string& path) {
    if (!given.contains(keyword)) return fallback;
    const Json& value = given[keyword];
    const bool whole =
        value.is_number_integer() ||
        (value.is_number() && value.get<double>() == static_cast<double>(static_cast<int32_t>(value.get<double>())));
    if (!whole || value.get<int64_t>() < 0)
      malformed(path, std::string("'") + keyword + "' must be a whole number >= 0");
    return value.get<int64_t>();
  }
  static std::optional<int64_t> maximum_count(const Json& given, const char* keyword, const std::string& path) {
    return given.contains(keyword) ? std::optional(count(given, keyword, 0, path)) : std::nullopt;
  }

  NodeId string(const Json& given, const std::string& path) {
    const bool sized = given.contains("minLength") || given.contains("maxLength");
    std::string pattern = given.value("pattern", "");
    if (pattern.empty() && given.contains("format")) {
      const auto format = format_patterns().find(given["format"].get<std::string>());
      if (format != format_patterns().end()) pattern = format->second;
    } else if (!pattern.empty() && given.contains("format") &&
               format_patterns().contains(given["format"].get<std::string>())) {
      refuse(path, "keyword 'pattern' beside 'format' is not supported");
    }
    if (pattern.empty() && !sized) return text_.string();
    if (pattern.empty()) {
      const int64_t min = count(given, "minLength", 0, path);
      const auto max = maximum_count(given, "maxLength", path);
      if (max && *max < min) return builder_.nothing();
      return text_.quoted(builder_.repeat(text_.any_character(), min, max));
    }
    if (sized) refuse(path, "keywords 'minLength' and 'maxLength' beside 'pattern' or 'format' are not supported");
    try {
      return text_.quoted(parse_regex(builder_, pattern, false,
                                      [this](Builder&, const CharacterSet& set) { return text_.character(set); }));
    } catch (const Error& error) {
      fail(error.code(), "JSON schema, {}: {}", path, error.what());
    }
  }

  NodeId number(const Json& given, bool whole, const std::string& path) {
    const auto bound = [&](const char* plain, const char* exclusive, bool is_min) -> std::optional<DecimalBound> {
      std::optional<DecimalBound> found;
      for (const bool is_exclusive : {false, true}) {
        const char* const keyword = is_exclusive ? exclusive : plain;
        if (!given.contains(keyword)) continue;
        if (!given[keyword].is_number()) malformed(path, std::string("'") + keyword + "' must be a number");
        const bool both = found.has_value();
        const double other = both ? given[plain].get<double>() : 0;
        const double value = given[keyword].get<double>();
        if (both && (is_min ? value < other : value > other)) continue;
        found = decimal_bound(given[keyword].dump(), is_exclusive);
      }
      return found;
    };
    const auto min = bound("minimum", "exclusiveMinimum", true);
    const auto max = bound("maximum", "exclusiveMaximum", false);
    if (!min && !max) return whole ? text_.integer() : text_.number();
    if (!whole) return number_between(builder_, min, max);
    return integer_between(builder_, whole_bound(min, true, path), whole_bound(max, false, path));
  }

  // The least integer >= (>) min, the greatest <= (<) max.
  static std::optional<int64_t> whole_bound(const std::optional<DecimalBound>& bound, bool is_min,
                                            const std::string& path) {
    if (!bound) return {};
    if (bound->digits.size() > 18) refuse(path, "bounds of integers beyond 18 digits are not supported");
    const int64_t magnitude = std::stoll(bound->digits);
    const int64_t truncated = bound->negative ? -magnitude : magnitude;
    const int64_t inward = is_min ? 1 : -1;
    if (bound->fraction.empty()) return bound->exclusive ? truncated + inward : truncated;
    return bound->negative == is_min ? truncated : truncated + inward;  // towards zero is inward already
  }

  NodeId array(const Json& given, const std::string& path) {
    const int64_t min = count(given, "minItems", 0, path);
    const auto max = maximum_count(given, "maxItems", path);
    const Json prefix = given.value("prefixItems", Json::array());
    if (!prefix.is_array()) malformed(path, "'prefixItems' must be a list of schemas");
    const Json rest = given.value("items", Json(true));
    const NodeId item = schema(rest, path + "/items");
    if (prefix.empty()) return text_.list("[", item, min, rest == Json(false) ? std::optional<int64_t>(0) : max, "]");
    // From the last item back: what may stand behind `i` items.
    const auto prefix_count = static_cast<int64_t>(prefix.size());
    const NodeId end = builder_.sequence({text_.space(), builder_.literal("]")});
    NodeId tail = end;
    if (rest != Json(false) && (!max || *max > prefix_count)) {
      const std::optional<int64_t> more = max ? std::optional(*max - prefix_count) : std::nullopt;
      tail = builder_.sequence(
          {builder_.repeat(builder_.sequence({text_.comma(), item}), std::max<int64_t>(0, min - prefix_count), more),
           end});
    } else if (min > prefix_count) {
      tail = builder_.nothing();
    }
    for (int64_t i = prefix_count - 1; i >= 0; --i) {
      const std::string place = fmt::format("{}/prefixItems/{}", path, i);
      const NodeId here = schema(prefix[static_cast<size_t>(i)], place);
      std::vector<NodeId> ways;
      if (!max || i < *max) ways.push_back(builder_.sequence({i > 0 ? text_.comma() : builder_.empty(), here, tail}));
      if (i >= min) ways.push_back(i > 0 ? end : builder_.literal("]"));
      tail = builder_.any_of(std::move(ways));
    }
    return builder_.sequence({builder_.literal("["), text_.space(), tail});
  }

  NodeId object(const Json& given, const std::string& path) {
    const Json properties = given.value("properties", Json::object());
    if (!properties.is_object()) malformed(path, "'properties' must be an object");
    const bool any_by_default = properties.empty();
    const Json additional = given.value("additionalProperties", Json(any_by_default));
    std::vector<std::string> names;
    for (const auto& item : properties.items()) names.push_back(item.key());
    const std::set<std::string> declared(names.begin(), names.end());
    std::set<std::string> required;
    for (const Json& name : given.value("required", Json::array())) {
      const auto text = name.get<std::string>();
      const bool is_new = required.insert(text).second;
      if (is_new && !declared.contains(text)) names.push_back(text);  // it may be what additional ones may
    }
    check_property_counts(given, names.size(), required.size(), additional, path);
    std::optional<NodeId> extra;
    if (additional != Json(false)) {
      const NodeId value = schema(additional, path + "/additionalProperties");
      const NodeId key = names.empty() ? text_.string() : text_.string_except(names);
      extra = text_.member(key, value);
    }
    return builder_.sequence(
        {builder_.literal("{"), text_.space(), members(given, properties, names, required, additional, extra, path)});
  }

  static void check_property_counts(const Json& given, size_t name_count, size_t required_count, const Json& additional,
                                    const std::string& path) {
    const int64_t min = count(given, "minProperties", 0, path);
    if (min > static_cast<int64_t>(required_count) && !(min <= 1 && name_count == 0)) {
      refuse(path, "keyword 'minProperties' above the number of required ones is not supported");
    }
    const auto max = maximum_count(given, "maxProperties", path);
    if (max && (additional != Json(false) || *max < static_cast<int64_t>(name_count))) {
      refuse(path, "keyword 'maxProperties' below the number of properties is not supported");
    }
  }

  // What stands behind "{": built from the last property back, for the two cases that something is before it or
  // nothing.   names: the properties, then those that are only required.
  NodeId members(const Json& given, const Json& properties, const std::vector<std::string>& names,
                 const std::set<std::string>& required, const Json& additional, std::optional<NodeId> extra,
                 const std::string& path) {
    const NodeId close = builder_.literal("}");
    const NodeId end = builder_.sequence({text_.space(), close});
    NodeId after = end;  // something is before
    NodeId first = close;
    if (extra) {
      after = builder_.sequence({builder_.repeat(builder_.sequence({text_.comma(), *extra}), 0, std::nullopt), end});
      const NodeId some = builder_.sequence({*extra, after});
      first = count(given, "minProperties", 0, path) > 0 && names.empty() ? some : builder_.any_of({some, close});
    }
    auto property = properties.end();
    for (size_t i = names.size(); i-- > 0;) {
      const std::string& name = names[i];
      const bool declared = i < properties.size();
      const NodeId value = declared ? property_value(*--property, path + "/properties/" + name)
                                    : schema(additional, path + "/additionalProperties");
      const NodeId member = text_.member(text_.constant(Json(name)), value);
      const NodeId here_after = builder_.sequence({text_.comma(), member, after});
      const NodeId here_first = builder_.sequence({member, after});
      const bool must = required.contains(name);
      first = must ? here_first : builder_.any_of({here_first, first});
      after = must ? here_after : builder_.any_of({here_after, after});
    }
    return first;
  }

  // Objects and arrays get a rule of their own: what they hold is looked at apart from what is around them.
  NodeId property_value(const Json& given, const std::string& path) {
    const NodeId body = schema(given, path);
    const bool is_compound =
        given.is_object() && (given.contains("properties") || given.contains("items") || given.contains("anyOf"));
    if (!is_compound) return body;
    const int32_t rule = builder_.new_rule(path);
    builder_.define(rule, body);
    return builder_.call(rule);
  }

  // A rule whose body is still to be compiled.
  struct Wanted {
    int32_t rule = 0;
    std::string place;
    const Json* schema = nullptr;
  };

  SchemaRoot root_;
  Builder& builder_;
  JsonText& text_;
  std::map<std::string, int32_t> refs_;  // by the reference's text
  std::deque<Wanted> wanted_;
  int depth_ = 0;
};

}  // namespace

NodeId json_document(Builder& builder, JsonText& text, const Json& schema) {
  try {
    return SchemaCompiler(schema, builder, text).document();
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::InvalidArgument, "JSON schema: {}", error.what());
  }
}

Program compile_json_schema(std::string_view schema, Budget& budget) {
  const Json root = parse_json(schema, "JSON schema");
  Builder builder(budget);
  JsonText text(builder);
  const NodeId document = json_document(builder, text, root);
  const int32_t start = builder.new_rule("document");
  builder.define(start, document);
  return builder.compile(start);
}

}  // namespace inflight::grammar
