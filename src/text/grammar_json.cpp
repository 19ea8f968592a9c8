// SPDX-License-Identifier: Apache-2.0
#include "text/grammar_json.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <map>

#include "base/bounded_json.h"
#include "base/error.h"
#include "base/limits.h"
#include "text/grammar_json_exclusive.h"
#include "text/grammar_json_merge.h"
#include "text/grammar_json_number.h"
#include "text/grammar_json_object.h"
#include "text/grammar_json_string.h"
#include "text/grammar_json_text.h"
#include "text/grammar_regex.h"

namespace inflight::grammar {
namespace {

constexpr size_t kListedMax =
    limits::kGrammarPositionsMax - 1000;  // of "enum": what stands around it has positions, too
constexpr size_t kDistinctMax = 8;        // values of which lists are written that hold none twice
constexpr int64_t kBareLengthMax = 16;    // characters that are counted of strings in elements: each takes 20 states
constexpr std::string_view kElementBlanks = " \t\r\n";

class SchemaCompiler {
 public:
  // LIFETIME: all are borrowed.
  SchemaCompiler(const Json& root, Builder& builder, JsonText& text, bool strict)
      : root_{root, builder.budget(), strict}, builder_(builder), text_(text) {}

  NodeId document() {
    const NodeId whole = refer_to("#", root_.schema);
    define_wanted();
    return whole;
  }

  NodeId elements(const ElementForm& form) {
    const std::string_view close = form.close;
    const size_t mark = std::min(close.find_first_not_of(kElementBlanks), close.size());
    const std::string_view closing = close.substr(mark, close.find_last_not_of(kElementBlanks) + 1 - mark);
    elements_.texts = texts_without(closing, builder_.budget());
    elements_.python_words = form.python_words;
    elements_.tell_strings = form.string_middle != form.middle;
    elements_.open = builder_.literal(form.open);
    elements_.string_middle = builder_.literal(form.string_middle);
    elements_.middle = builder_.literal(form.middle);
    elements_.close = builder_.literal(close);
    elements_.comma = builder_.empty();
    // Which may end with the blanks that `close` begins with.
    elements_.any_string = builder_.sequence(
        {elements_.string_middle, builder_.automaton(elements_.texts), builder_.literal(close.substr(mark))});
    return outer_schema();
  }

  NodeId members(const MemberForm& form) {
    is_bare_ = false;
    elements_.open = builder_.empty();
    elements_.middle = builder_.literal(form.middle);
    elements_.comma = builder_.literal(form.separator);
    return outer_schema();
  }

 private:
  using Compile = NodeId (SchemaCompiler::*)(const Json& given, const std::string& path);

  NodeId outer_schema() {
    is_outer_ = true;
    const NodeId whole = schema(root_.schema, "#");
    is_outer_ = false;
    define_wanted();
    return whole;
  }

  void define_wanted() {
    while (!wanted_.empty()) {
      const Wanted next = std::move(wanted_.front());
      wanted_.pop_front();
      builder_.define(next.rule, schema(*next.schema, next.place));
    }
  }

  NodeId schema(const Json& given, const std::string& path) {
    return nested(&SchemaCompiler::schema_body, given, path);
  }

  NodeId nested(Compile compile, const Json& given, const std::string& path) {
    if (++depth_ > limits::kGrammarDepthMax) {
      fail(ErrorCode::InvalidArgument, "JSON schema, {}: nested deeper than {} levels", path, limits::kGrammarDepthMax);
    }
    builder_.budget().charge(steps_of(given) + path.size() / Budget::kBytesPerStep);
    const NodeId node = (this->*compile)(given, path);
    --depth_;
    return node;
  }

  NodeId schema_body(const Json& given, const std::string& path) {
    if (given.is_boolean()) return given.get<bool>() ? text_.value() : builder_.nothing();
    if (!given.is_object()) {
      fail(ErrorCode::InvalidArgument, "JSON schema, {}: a schema is an object or a boolean", path);
    }
    check_keywords(given, path);
    if (given.contains("$ref")) return reference(given, path);
    if (given.contains("allOf")) return schema(flat_schema(given, path, root_), path);
    for (const char* const keyword : {"anyOf", "oneOf"}) {
      if (given.contains(keyword)) return choices(given, keyword, path, &SchemaCompiler::schema);
    }
    const Json flat = flat_schema(given, path, root_);
    if (is_outer_) return outer_object(flat, path);
    if (flat.contains("const") || flat.contains("enum")) return literals(flat, path);
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
      root_.leave_out(path, "keyword '" + keyword + "' is not supported");
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
    if (!given["$ref"].is_string()) malformed(path, "$ref", given["$ref"], "a string");
    const std::string target = given["$ref"].get<std::string>();
    const Json& referred = resolve_reference(root_, target, path);
    if (!alone) {
      Json all = given;
      all.erase("$ref");
      return schema(merge_schemas(all, referred, path, root_), path);
    }
    return refer_to(target, referred);
  }

  NodeId choices(const Json& given, const std::string& keyword, const std::string& path, Compile compile) {
    const Json& list = given[keyword];
    if (!list.is_array() || list.empty()) malformed(path, keyword, list, "a list of schemas");
    Json rest = given;
    rest.erase(keyword);
    const bool alone = std::ranges::all_of(rest.items(), [](const auto& item) { return is_annotation(item.key()); });
    const auto place_of = [&](size_t i) { return fmt::format("{}/{}/{}", path, keyword, i); };
    std::vector<Json> whole;
    for (size_t i = 0; i < list.size(); ++i)
      whole.push_back(alone ? list[i] : merge_schemas(rest, list[i], place_of(i), root_));
    std::vector<NodeId> alternatives;
    for (size_t i = 0; i < whole.size(); ++i) alternatives.push_back((this->*compile)(whole[i], place_of(i)));
    if (keyword == "oneOf") look_for_overlaps(whole, path);
    return builder_.any_of(std::move(alternatives));
  }

  // A document of one alternative must satisfy no other one.
  void look_for_overlaps(const std::vector<Json>& alternatives, const std::string& path) const {
    for (size_t i = 0; i < alternatives.size(); ++i) {
      for (size_t j = 0; j < alternatives.size(); ++j) {
        if (i == j || never_both(alternatives[i], alternatives[j], path, root_)) continue;
        root_.leave_out(path,
                        fmt::format("keyword 'oneOf' is not supported where a document may satisfy two alternatives, "
                                    "here {} and {}; say 'anyOf' where that is meant",
                                    std::min(i, j), std::max(i, j)));
      }
    }
  }

  NodeId literals(const Json& given, const std::string& path) {
    std::vector<NodeId> alternatives;
    for (const Json& value : values_of(given, path)) alternatives.push_back(text_.constant(value));
    return builder_.any_of(std::move(alternatives));
  }

  // The values that "const" or "enum" allow.
  Json values_of(const Json& given, const std::string& path) const {
    if (given.contains("enum") && (!given["enum"].is_array() || given["enum"].empty()))
      malformed(path, "enum", given["enum"], "a list of values");
    for (const auto& item : given.items()) {
      const std::string& keyword = item.key();
      if (keyword != "const" && keyword != "enum" && !narrows_listed_values(keyword) && !is_annotation(keyword)) {
        root_.leave_out(path, "keyword '" + keyword + "' beside 'enum' or 'const' is not supported");
      }
    }
    const bool both = given.contains("const") && given.contains("enum");
    if (both && std::ranges::find(given["enum"], given["const"]) == given["enum"].end()) return Json::array();
    if (given.contains("enum") && given["enum"].size() > kListedMax) {
      fail(ErrorCode::InvalidArgument, "JSON schema, {}: 'enum' lists {} values, allowed: {}", path,
           given["enum"].size(), kListedMax);
    }
    return *listed_values(given, path, root_);
  }

  // What is written of an element behind its name.
  NodeId bare_value(const Json& given, const std::string& path) {
    return nested(&SchemaCompiler::bare_value_body, given, path);
  }

  NodeId bare_value_body(const Json& given, const std::string& path) {
    if (given == Json(true)) return bare_value(Json::object(), path);
    if (!given.is_object()) return schema(given, path);
    check_keywords(given, path);
    const Json flat = flat_schema(given, path, root_);
    if (!flat.is_object()) return bare_value(flat, path);
    for (const char* const keyword : {"anyOf", "oneOf"}) {
      if (flat.contains(keyword)) return choices(flat, keyword, path, &SchemaCompiler::bare_value);
    }
    if (flat.contains("const") || flat.contains("enum")) return bare_literals(flat, path);
    std::vector<std::string> types = types_of(flat, path);
    if (std::erase(types, "string") == 0)
      return bare_json(builder_.any_of({property_value(given, path), python_words(types)}));
    const bool narrow = !patterns_of(flat).empty() || flat.contains("minLength") || flat.contains("maxLength");
    if (!narrow && !elements_.tell_strings) return elements_.any_string;  // which JSON is among
    const NodeId string =
        narrow ? bare_string(builder_.automaton(bare_texts(flat, path, elements_.texts))) : elements_.any_string;
    if (types.empty()) return string;
    Json others = flat;
    others["type"] = types;
    return builder_.any_of({string, bare_json(property_value(others, path))});
  }

  NodeId bare_literals(const Json& given, const std::string& path) {
    std::vector<NodeId> strings, others;
    for (const Json& value : values_of(given, path)) {
      if (!value.is_string()) {
        others.push_back(text_.constant(value));
      } else if (const auto& text = value.get_ref<const std::string&>(); elements_.texts.accepts(text)) {
        strings.push_back(builder_.literal(text));
      }
    }
    return builder_.any_of(
        {bare_string(builder_.any_of(std::move(strings))), bare_json(builder_.any_of(std::move(others)))});
  }

  // Python's of these types.
  NodeId python_words(const std::vector<std::string>& types) {
    std::vector<NodeId> words;
    if (!elements_.python_words) return builder_.nothing();
    for (const std::string& type : types) {
      if (type == "boolean") words.insert(words.end(), {builder_.literal("True"), builder_.literal("False")});
      if (type == "null") words.push_back(builder_.literal("None"));
    }
    return builder_.any_of(std::move(words));
  }

  NodeId bare_string(NodeId value) { return builder_.sequence({elements_.string_middle, value, elements_.close}); }
  NodeId bare_json(NodeId value) { return builder_.sequence({elements_.middle, value, elements_.close}); }

  // Of `texts`, in which strings stand as they are.
  Dfa bare_texts(Json given, const std::string& path, const Dfa& texts) {
    if (!patterns_of(given).empty()) return string_texts(given, path, root_, texts);
    for (const char* const keyword : {"minLength", "maxLength"}) {
      if (count_of(given, keyword, path).value_or(0) <= kBareLengthMax) continue;
      root_.leave_out(
          path, fmt::format("keyword '{}' above {} is not supported here without a pattern", keyword, kBareLengthMax));
      given.erase(keyword);
    }
    return string_texts(given, path, root_, texts);
  }

  NodeId typed(const Json& given, const std::string& type, const std::string& path) {
    if (type == "null") return text_.constant(nullptr);
    if (type == "boolean") return builder_.any_of({text_.constant(true), text_.constant(false)});
    if (type == "string") return string(given, path);
    if (type == "integer" || type == "number") return number(given, type == "integer", path);
    return type == "array" ? array(given, path) : object(given, path);
  }

  struct Counts {
    int64_t min = 0;
    std::optional<int64_t> max;
  };
  // Of equal parts, which are written one by one: so many at most, whatever `most` says.
  [[nodiscard]] static Counts counts_of(const Json& given, const char* least, const char* most,
                                        const std::string& path) {
    Counts counts{count_of(given, least, path).value_or(0), count_of(given, most, path)};
    if (counts.min > limits::kGrammarRepeatMax)
      malformed(path, least, given[least], fmt::format("0 to {}", limits::kGrammarRepeatMax));
    if (counts.max) counts.max = std::min(*counts.max, limits::kGrammarRepeatMax);
    return counts;
  }

  NodeId string(const Json& given, const std::string& path) {
    const std::vector<std::string> patterns = patterns_of(given);
    const auto [min, max] = counts_of(given, "minLength", "maxLength", path);
    const bool sized = min > 0 || max;
    if (max && *max < min) return builder_.nothing();
    if (text_.has_long_quote() && (sized || !patterns.empty()))
      return text_.quoted(builder_.automaton(bare_texts(given, path, text_.quotable_texts())));
    if (patterns.empty())
      return sized ? text_.quoted(builder_.repeat(text_.any_character(), min, max)) : text_.string();
    if (sized || patterns.size() > 1) return text_.string_of(string_texts(given, path, root_));
    const auto matching = kept(root_, path, [&] {
      return text_.quoted(parse_regex(builder_, patterns[0], false,
                                      [this](Builder&, const CharacterSet& set) { return text_.character(set); }));
    });
    return matching ? *matching : text_.string();
  }

  NodeId number(const Json& given, bool whole, const std::string& path) {
    const NumberRange range = number_range(given, path);
    const auto within_bounds = [&](Builder& builder) {
      return whole ? integer_between(builder, range.min, range.max) : number_between(builder, range.min, range.max);
    };
    if (range.step) {
      const auto texts = kept(root_, path, [&] {
        return intersection(multiples_of(*range.step, whole), texts_of(builder_.budget(), within_bounds),
                            builder_.budget());
      });
      if (texts) return builder_.automaton(*texts);
    }
    if (range.min || range.max) return within_bounds(builder_);
    return whole ? text_.integer() : text_.number();
  }

  NodeId array(const Json& given, const std::string& path) {
    const auto [min, max] = counts_of(given, "minItems", "maxItems", path);
    if (max && *max < min) return builder_.nothing();
    const Json prefix = given.value("prefixItems", Json::array());
    const Json rest = given.value("items", Json(true));
    const NodeId item = schema(rest, path + "/items");
    if (given.value("uniqueItems", false) && !(max && *max <= 1)) {
      const std::vector<Json> values = prefix.empty() ? distinct_values(rest, path + "/items") : std::vector<Json>();
      if (!values.empty() && values.size() <= kDistinctMax) return distinct_list(values, min, max);
      root_.leave_out(
          path,
          fmt::format("keyword 'uniqueItems' is not supported but for items of up to {} listed values", kDistinctMax));
    }
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

  // The values that items of `given` may have, each once; none where they are not listed.
  std::vector<Json> distinct_values(const Json& given, const std::string& path) const {
    const Json flat = flat_schema(given, path, root_);
    if (flat.is_boolean() || flat.contains("anyOf") || flat.contains("oneOf")) return {};
    std::vector<Json> values;
    const Json listed = listed_values(flat, path, root_).value_or(Json::array());
    for (const Json& value : listed) {
      if (values.size() > kDistinctMax) break;
      if (std::ranges::find(values, value) == values.end()) values.push_back(value);
    }
    return values;
  }

  // Lists of some of `values`, no one twice: from the full list back, what may stand behind those that are taken.
  NodeId distinct_list(const std::vector<Json>& values, int64_t min, std::optional<int64_t> max) {
    std::vector<NodeId> items;
    for (const Json& value : values) items.push_back(text_.constant(value));
    const NodeId comma = text_.comma();
    const NodeId close = builder_.literal("]");
    const NodeId end = builder_.sequence({text_.space(), close});
    std::vector<NodeId> behind(size_t{1} << values.size());
    for (size_t taken = behind.size(); taken-- > 0;) {
      const int64_t taken_count = std::popcount(taken);
      std::vector<NodeId> ways;
      for (size_t i = 0; i < items.size() && (!max || taken_count < *max); ++i) {
        const size_t with = taken | size_t{1} << i;
        if (with != taken)
          ways.push_back(builder_.sequence({taken > 0 ? comma : builder_.empty(), items[i], behind[with]}));
      }
      if (taken_count >= min) ways.push_back(taken > 0 ? end : close);
      behind[taken] = builder_.any_of(std::move(ways));
    }
    return builder_.sequence({builder_.literal("["), text_.space(), behind[0]});
  }

  NodeId object(const Json& given, const std::string& path) {
    const ObjectParts parts = read_object(given, path, root_);
    std::vector<NodeId> others;
    for (const OtherProperties& other : parts.others) {
      const NodeId value = schema(other.value, other.path);
      if (text_.has_long_quote()) {
        if (const auto name = bare_name(parts, other)) others.push_back(text_.member(*name, value));
        continue;
      }
      const NodeId key = other.names           ? text_.string_of(*other.names)
                         : parts.taken.empty() ? text_.string()
                                               : text_.string_except(parts.taken);
      others.push_back(text_.member(key, value));
    }
    return builder_.sequence({builder_.literal("{"), text_.space(), members(parts, std::move(others), false)});
  }

  // The object whose members are elements.
  NodeId outer_object(const Json& given, const std::string& path) {
    const std::vector<std::string> types = types_of(given, path);
    if (std::ranges::find(types, "object") == types.end()) return builder_.nothing();
    if (given.contains("const") || given.contains("enum"))
      root_.leave_out(path, "keywords 'const' and 'enum' are not supported here");
    const ObjectParts parts = read_object(given, path, root_);
    is_outer_ = false;
    std::vector<NodeId> others;
    for (const OtherProperties& other : parts.others) {
      if (const auto name = bare_name(parts, other)) others.push_back(element(*name, other.value, other.path));
    }
    const NodeId all = members(parts, std::move(others), true);
    is_outer_ = true;
    return all;
  }

  // Of undeclared members where no quotes end it.
  std::optional<NodeId> bare_name(const ObjectParts& parts, const OtherProperties& other) {
    const auto names = kept(root_, other.path, [&] {
      const Dfa free = difference(text_.bare_names(), listed_texts(parts.taken, builder_.budget()), builder_.budget());
      return other.names ? intersection(free, *other.names, builder_.budget()) : free;
    });
    return names ? std::optional(builder_.automaton(*names)) : std::nullopt;
  }

  NodeId element(NodeId name, const Json& value, const std::string& path) {
    const NodeId written =
        is_bare_ ? bare_value(value, path) : builder_.sequence({elements_.middle, property_value(value, path)});
    return builder_.sequence({elements_.open, name, written});
  }

  // What stands between two members, behind some, and behind none.
  struct Marks {
    NodeId comma, end, close;
  };
  Marks marks(bool as_elements) {
    if (as_elements) return {elements_.comma, builder_.empty(), builder_.empty()};
    const NodeId close = builder_.literal("}");
    return {text_.comma(), builder_.sequence({text_.space(), close}), close};
  }

  // What stands behind "{": built from the last property back, apart for each number of members before it, of which
  // without `parts.max` no more count than whether there is one.   others: members that may stand behind the
  // properties.
  NodeId members(const ObjectParts& parts, std::vector<NodeId> others, bool as_elements) {
    const Marks around = marks(as_elements);
    const auto room_behind = [&](size_t used) { return !parts.max || static_cast<int64_t>(used) < *parts.max; };
    const auto count = static_cast<int64_t>(parts.properties.size());
    const auto most = static_cast<size_t>(std::max<int64_t>(parts.max ? std::min(*parts.max, count) : 1, 1));
    std::vector<NodeId> behind = ends(parts, std::move(others), most, around);
    for (size_t i = parts.properties.size(); i-- > 0;) {
      const Property& property = parts.properties[i];
      NodeId member = as_elements
                          ? element(builder_.literal(property.name), property.value, property.path)
                          : text_.member(text_.name(property.name), property_value(property.value, property.path));
      if (parts.max) member = rule_of(property.path, member);  // which stands there many times
      for (size_t used = 0; used <= most; ++used) {  // what stands behind more members is not yet written over
        NodeId with = builder_.nothing();
        if (room_behind(used)) {
          const NodeId next = behind[std::min(used + 1, most)];
          with = used > 0 ? builder_.sequence({around.comma, member, next}) : builder_.sequence({member, next});
        }
        behind[used] = property.required ? with : builder_.any_of({with, behind[used]});
      }
    }
    return behind[0];
  }

  // What may stand behind the properties, by the number of members until then, up to `most`.
  std::vector<NodeId> ends(const ObjectParts& parts, std::vector<NodeId> others, size_t most, const Marks& around) {
    const NodeId end = around.end;
    const NodeId none = parts.is_never_empty ? builder_.nothing() : around.close;
    std::vector<NodeId> behind(most + 1, end);
    behind[0] = none;
    if (others.empty() || parts.max == 0) return behind;
    NodeId other = builder_.any_of(std::move(others));
    if (parts.max) other = rule_of("others", other);
    const NodeId more = builder_.sequence({around.comma, other});
    const auto rest = parts.max ? std::optional(*parts.max - static_cast<int64_t>(most)) : std::nullopt;
    behind[most] = builder_.sequence({builder_.repeat(more, 0, rest), end});
    for (size_t used = most; used-- > 1;)
      behind[used] = builder_.any_of({builder_.sequence({more, behind[used + 1]}), end});
    behind[0] = builder_.any_of({builder_.sequence({other, behind[1]}), none});
    return behind;
  }

  NodeId rule_of(const std::string& name, NodeId body) {
    const int32_t rule = builder_.new_rule(name);
    builder_.define(rule, body);
    return builder_.call(rule);
  }

  // Objects and arrays get a rule of their own: what they hold is looked at apart from what is around them.
  NodeId property_value(const Json& given, const std::string& path) {
    const NodeId body = schema(given, path);
    const bool is_compound =
        given.is_object() && (given.contains("properties") || given.contains("items") || given.contains("anyOf"));
    return is_compound ? rule_of(path, body) : body;
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
  struct {
    NodeId open = 0, string_middle = 0, middle = 0, close = 0, comma = 0, any_string = 0;
    Dfa texts;                  // of strings
    bool tell_strings = false;  // the middles differ
    bool python_words = false;
  } elements_;
  bool is_outer_ = false;  // what is compiled is the object whose members are elements, or in a spelling of their own
  bool is_bare_ = true;    // values of elements have no quotes
};

// ERRORS: InvalidArgument for what JSON's own reader complains about.
template <typename Compile>
NodeId compiled(Compile&& compile) {
  try {
    return compile();
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::InvalidArgument, "JSON schema: {}", error.what());
  }
}

}  // namespace

NodeId json_document(Builder& builder, JsonText& text, const Json& schema, bool strict) {
  return compiled([&] { return SchemaCompiler(schema, builder, text, strict).document(); });
}

NodeId json_elements(Builder& builder, JsonText& text, const Json& schema, bool strict, const ElementForm& form) {
  return compiled([&] { return SchemaCompiler(schema, builder, text, strict).elements(form); });
}

NodeId json_members(Builder& builder, JsonText& text, const Json& schema, bool strict, const MemberForm& form) {
  return compiled([&] { return SchemaCompiler(schema, builder, text, strict).members(form); });
}

Program compile_json_schema(std::string_view schema, bool strict, Budget& budget) {
  const Json root = parse_json(schema, "JSON schema");
  Builder builder(budget);
  JsonText text(builder);
  const NodeId document = json_document(builder, text, root, strict);
  const int32_t start = builder.new_rule("document");
  builder.define(start, document);
  return builder.compile(start);
}

}  // namespace inflight::grammar
