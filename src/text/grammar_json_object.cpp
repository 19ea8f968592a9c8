// SPDX-License-Identifier: Apache-2.0
#include "text/grammar_json_object.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/limits.h"
#include "text/grammar_json_string.h"

namespace inflight::grammar {
namespace {

constexpr size_t kCountedMax = 128;  // properties that may be counted: the grammar's size is that squared

class ObjectReader {
 public:
  // LIFETIME: all are borrowed.
  ObjectReader(const Json& given, const std::string& path, const SchemaRoot& root)
      : given_(given),
        path_(path),
        root_(root),
        declared_(object_at("properties")),
        by_pattern_(object_at("patternProperties")),
        additional_(given.value("additionalProperties", Json(declared_.empty() && by_pattern_.empty()))) {}

  ObjectParts read() {
    for (const auto& [name, value] : declared_.items()) place_of(name).value = value;
    for (const Json& name : given_.value("required", Json::array())) {
      const bool is_declared = places_.contains(name.get<std::string>());
      Property& property = place_of(name.get<std::string>());
      property.required = true;
      if (!is_declared) property.value = given_.value("additionalProperties", Json(true));
    }
    for (const auto& [expression, value] : by_pattern_.items()) {
      const std::string place = path_ + "/patternProperties/" + expression;
      auto names = kept(root_, place, [&] { return pattern_texts(expression, root_.budget); });
      if (names) patterns_.push_back({std::move(*names), value, place});
    }
    read_names();
    for (size_t i = 0; i < parts_.properties.size(); ++i) narrow(parts_.properties[i], i < declared_.size());
    for (const Property& property : parts_.properties) parts_.taken.push_back(property.name);
    std::erase_if(parts_.properties, [](const Property& one) { return !one.required && one.value == Json(false); });
    if (!are_names_listed_) parts_.others = others();
    read_counts();
    return std::move(parts_);
  }

 private:
  // Names that an expression matches, and what it says of their values.
  struct Pattern {
    Dfa names;
    Json value;
    std::string path;
  };

  [[nodiscard]] Json object_at(const char* keyword) const {
    Json found = given_.value(keyword, Json::object());
    root_.budget.charge(steps_of(found));
    return found;
  }

  // The property of that name; one that is not declared may be what additional ones may.
  Property& place_of(const std::string& name) {
    const auto [place, is_new] = places_.try_emplace(name, parts_.properties.size());
    if (is_new) {
      const bool is_declared = parts_.properties.size() < declared_.size();
      parts_.properties.push_back(
          {name, additional_, path_ + (is_declared ? "/properties/" + name : "/additionalProperties")});
    }
    return parts_.properties[place->second];
  }

  void read_names() {
    if (!given_.contains("propertyNames")) return;
    const std::string place = path_ + "/propertyNames";
    const Json wanted = flat_schema(given_["propertyNames"], place, root_);
    if (wanted == Json(true)) return;
    const auto types =
        wanted.is_object() && wanted.contains("type") ? types_of(wanted, place) : std::vector<std::string>();
    if (wanted == Json(false) || (!types.empty() && std::ranges::find(types, "string") == types.end())) {
      names_ = Dfa();
      return;
    }
    for (const auto& [keyword, value] : wanted.items()) {
      constexpr std::string_view kKnown[] = {"type", "enum", "const", "pattern", "format", "minLength", "maxLength"};
      if (!is_annotation(keyword) && std::ranges::find(kKnown, keyword) == std::end(kKnown))
        root_.leave_out(place, "keyword '" + keyword + "' is not supported of names");
    }
    const auto listed = listed_values(wanted, place, root_);
    if (!listed) {
      names_ = string_texts(wanted, place, root_);
      return;
    }
    are_names_listed_ = true;
    std::vector<std::string> names;
    for (const Json& name : *listed) {
      if (name.is_string()) names.push_back(name);
    }
    names_ = listed_texts(names, root_.budget);
    for (const std::string& name : names) (void)place_of(name);
  }

  // A property also satisfies the patterns that its name matches; with a name that is not allowed it is never there.
  void narrow(Property& property, bool is_declared) {
    bool is_additional = !is_declared;
    for (const Pattern& pattern : patterns_) {
      if (!pattern.names.accepts(property.name)) continue;
      property.value =
          is_additional ? pattern.value : merge_schemas(property.value, pattern.value, property.path, root_);
      is_additional = false;
    }
    if (names_ && !names_->accepts(property.name)) property.value = false;
  }

  // By the patterns that names match: each pattern parts the names so far in two.
  std::vector<OtherProperties> others() {
    if (!names_ && patterns_.empty()) {
      if (additional_ == Json(false)) return {};
      return {{std::nullopt, additional_, path_ + "/additionalProperties"}};
    }
    const Dfa all = names_ ? *names_ : pattern_texts("", root_.budget);
    std::vector<OtherProperties> found{{difference(all, listed_texts(parts_.taken, root_.budget), root_.budget),
                                        additional_, path_ + "/additionalProperties"}};
    for (const Pattern& pattern : patterns_) {
      std::vector<OtherProperties> parted;
      for (OtherProperties& part : found) {
        Dfa matched = intersection(*part.names, pattern.names, root_.budget);
        if (!matched.is_empty()) {
          const bool is_additional = &part == &found.front();
          parted.push_back({std::move(matched),
                            is_additional ? pattern.value : merge_schemas(part.value, pattern.value, part.path, root_),
                            pattern.path});
        }
        part.names = difference(*part.names, pattern.names, root_.budget);
      }
      found.insert(found.end(), std::make_move_iterator(parted.begin()), std::make_move_iterator(parted.end()));
    }
    std::erase_if(found, [](const OtherProperties& one) { return one.names->is_empty() || one.value == Json(false); });
    return found;
  }

  void read_counts() {
    const int64_t required_count = std::ranges::count_if(parts_.properties, &Property::required);
    const int64_t min = count_of(given_, "minProperties", path_).value_or(0);
    parts_.is_never_empty = min > 0;
    if (min > std::max<int64_t>(required_count, 1))
      root_.leave_out(path_, "keyword 'minProperties' above the number of required ones is not supported");
    const auto max = count_of(given_, "maxProperties", path_);
    const size_t count = parts_.properties.size();
    if (!max || (parts_.others.empty() && *max >= static_cast<int64_t>(count))) return;
    if (count > kCountedMax || *max > limits::kGrammarRepeatMax) {
      root_.leave_out(path_,
                      fmt::format("keyword 'maxProperties' is {} beside {} properties, not supported above {} or "
                                  "beside more than {}",
                                  *max, count, limits::kGrammarRepeatMax, kCountedMax));
    } else {
      parts_.max = max;
    }
  }

  const Json& given_;
  const std::string& path_;
  const SchemaRoot& root_;
  const Json declared_, by_pattern_, additional_;
  ObjectParts parts_;
  std::map<std::string, size_t> places_;  // of names, in parts_.properties
  std::vector<Pattern> patterns_;
  std::optional<Dfa> names_;  // that are allowed; nothing: all
  bool are_names_listed_ = false;
};

}  // namespace

ObjectParts read_object(const Json& given, const std::string& path, const SchemaRoot& root) {
  return ObjectReader(given, path, root).read();
}

}  // namespace inflight::grammar
