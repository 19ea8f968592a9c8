// SPDX-License-Identifier: Apache-2.0
// Filters of lists and mappings.
#include <algorithm>

#include "base/utf8.h"
#include "text/jinja_filter_table.h"
#include "text/jinja_lexer.h"
#include "text/jinja_strings.h"
#include "text/unicode.h"

namespace inflight::jinja {
namespace {

std::vector<Value> items_of(Call& call) { return call.interpreter.iterate(call.subject, call.line); }

// What is evaluated counts by itself, items that are passed on do not.
void count_text(Call& call, const Value& item) {
  if (item.is_string()) call.heap().work(item.text().size());
}

// value.a.b for "a.b"; numbers are indices.
Value get_path(Call& call, const Value& value, const Value& path) {
  count_text(call, value);
  if (path.is_integer()) return call.interpreter.item(value, path, call.line);
  Value result = value;
  const std::string names = to_string(call.heap(), path);
  for (const std::string_view part : split_text(names, ".", -1, false)) {
    const bool is_index =
        !part.empty() && part.size() < 10 && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    const Value key =
        is_index ? Value(static_cast<int64_t>(std::stol(std::string(part)))) : call.heap().string(std::string(part));
    result = call.interpreter.item(result, key, call.line);
  }
  return result;
}

Value length(Call& call) {
  const Value& value = call.subject;
  size_t count = 0;
  if (value.is_string()) {
    count = count_utf8_characters(value.text());
  } else if (value.is_list() || (value.is_iterator() && !is_generator(value))) {
    count = value.list().items.size();
  } else if (value.is_dict()) {
    count = value.dict().items.size();
  } else if (!value.is_undefined()) {
    fail_at(call.line, "a value of type {} has no length", type_name(value));
  }
  return Value(static_cast<int64_t>(count));
}

Value join(Call& call) {
  const std::string separator = to_string(call.heap(), call.get(0, "d", call.heap().string("")));
  const auto path = call.find(1, "attribute");
  std::string out;
  bool first = true;
  for (const Value& item : items_of(call)) {
    if (!std::exchange(first, false)) add_text(out, separator);
    add_text(out, to_string(call.heap(), path && !path->is_none() ? get_path(call, item, *path) : item));
  }
  return call.heap().string(std::move(out));
}

Value first(Call& call) {
  const auto items = items_of(call);
  if (items.empty()) return {};
  if (is_generator(call.subject)) call.subject.list().items.assign(items.begin() + 1, items.end());  // not read yet
  return items.front();
}

Value last(Call& call) {
  if (is_generator(call.subject)) fail_at(call.line, "last: a generator has no end to begin at");
  const auto items = items_of(call);
  return items.empty() ? Value() : items.back();
}

Value reverse(Call& call) {
  const bool was_generator = is_generator(call.subject);
  auto items = items_of(call);
  std::ranges::reverse(items);
  if (was_generator) return call.heap().list(std::move(items));
  if (!call.subject.is_string()) return call.heap().generator(std::move(items));
  std::string out;
  for (const Value& item : items) out += item.text();
  return call.like_subject(std::move(out));
}

std::vector<Value> pairs_of(Call& call) {
  std::vector<Value> pairs;
  if (call.subject.is_undefined()) return pairs;
  if (!call.subject.is_dict()) fail_at(call.line, "{} needs a mapping, not {}", call.name, type_name(call.subject));
  for (const auto& [key, value] : call.subject.dict().items) pairs.push_back(call.heap().list({key, value}, true));
  return pairs;
}

// For jinja2's lazy filters: what is false (none, 0) has no items, where the others raise an error.
std::vector<Value> items_if_true(Call& call) { return truth(call.subject) ? items_of(call) : std::vector<Value>{}; }

// Of the arguments as they are passed on.
size_t argument_bytes(const Call& call) {
  size_t bytes = call.positional.size() * sizeof(Value);
  for (const auto& argument : call.named) bytes += sizeof(argument) + argument.first.size();
  return bytes;
}

// The call, for `subject`, of the filter or test that argument `index` names, with the arguments behind it. What is in
// them counts anew, since each call may read all of it.
Call inner_call(Call& call, size_t index, const Value& subject) {
  if (index >= call.positional.size()) fail_at(call.line, "{} needs an argument 'filter'", call.name);
  const Value& name = call.positional[index];
  if (!name.is_string()) fail_at(call.line, "{}: {} is no filter's or test's name", call.name, type_name(name));
  Call inner{.interpreter = call.interpreter, .name = name.text(), .line = call.line, .subject = subject};
  inner.positional.assign(call.positional.begin() + static_cast<std::ptrdiff_t>(index) + 1, call.positional.end());
  inner.named = call.named;
  call.heap().work(argument_bytes(inner));
  count_text(call, subject);
  for (const Value& argument : inner.positional) count_text(call, argument);
  for (const auto& argument : inner.named) count_text(call, argument.second);
  return inner;
}

// map('filter', ...) or map(attribute='name', default=...)
Value map(Call& call) {
  std::vector<Value> results;
  const auto path = call.positional.empty() ? call.find(0, "attribute") : std::nullopt;
  const auto fallback = call.find(SIZE_MAX, "default");
  for (const Value& item : items_if_true(call)) {
    if (path) {
      const Value value = get_path(call, item, *path);
      results.push_back(value.is_undefined() && fallback ? *fallback : value);
    } else {
      Call inner = inner_call(call, 0, item);
      const size_t bytes = argument_bytes(inner);
      call.heap().charge(bytes);  // the filter may be map, which keeps its own
      results.push_back(call.interpreter.apply_filter(inner));
      call.heap().refund(bytes);
    }
  }
  return call.heap().generator(std::move(results));
}

// select, reject: by a test of the item, or its truth. selectattr, rejectattr: of an attribute.
Value choose(Call& call, bool wanted, bool by_attribute) {
  const size_t skip = by_attribute ? 1 : 0;
  std::vector<Value> chosen;
  for (const Value& item : items_if_true(call)) {
    const Value value = by_attribute ? get_path(call, item, call.require(0, "attribute")) : item;
    bool holds = truth(value);
    if (call.positional.size() > skip) {
      Call inner = inner_call(call, skip, value);
      holds = call.interpreter.apply_test(inner);
    }
    if (holds == wanted) chosen.push_back(item);
  }
  return call.heap().generator(std::move(chosen));
}

// What is compared: the attribute, in lower case unless case_sensitive.
Value sort_key(Call& call, const Value& item, const std::optional<Value>& path, bool case_sensitive) {
  const Value value = path && !path->is_none() ? get_path(call, item, *path) : item;
  return value.is_string() && !case_sensitive ? call.heap().string(to_lower(value.text())) : value;
}

template <typename KeyOf>
std::vector<Value> sorted(Call& call, const std::vector<Value>& values, bool reverse_order, KeyOf&& key_of) {
  std::vector<std::pair<Value, Value>> keyed;  // key, item
  call.heap().charge(values.size() * sizeof(keyed[0]));
  keyed.reserve(values.size());
  for (const Value& item : values) keyed.emplace_back(key_of(item), item);
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
    return reverse_order ? less(call.heap(), b.first, a.first) : less(call.heap(), a.first, b.first);
  });
  std::vector<Value> result;
  for (const auto& entry : keyed) result.push_back(entry.second);
  return result;
}

// By a list of keys, of one or of "a,b,c".
Value sort(Call& call) {
  const bool case_sensitive = call.flag(1, "case_sensitive", false);
  const auto given = call.find(2, "attribute");
  std::vector<std::optional<Value>> paths{given};
  if (given && given->is_string()) {
    paths.clear();
    for (const std::string_view path : split_text(given->text(), ",", -1, false)) {
      paths.emplace_back(call.heap().string(std::string(path)));
    }
  }
  return call.heap().list(sorted(call, items_of(call), call.flag(0, "reverse", false), [&](const Value& item) {
    std::vector<Value> keys;
    for (const auto& path : paths) keys.push_back(sort_key(call, item, path, case_sensitive));
    return call.heap().list(std::move(keys));
  }));
}

Value unique(Call& call) {
  const bool case_sensitive = call.flag(0, "case_sensitive", false);
  const auto path = call.find(1, "attribute");
  std::vector<Value> seen;
  std::vector<Value> result;
  for (const Value& item : items_of(call)) {
    const Value key = sort_key(call, item, path, case_sensitive);
    require_key(call.heap(), key);
    if (std::ranges::any_of(seen, [&](const Value& other) { return equal(call.heap(), other, key); })) continue;
    seen.push_back(key);
    result.push_back(item);
  }
  return call.heap().generator(std::move(result));
}

Value extreme(Call& call, bool greatest) {
  const bool case_sensitive = call.flag(0, "case_sensitive", false);
  const auto path = call.find(1, "attribute");
  std::optional<Value> best;
  Value best_key;
  for (const Value& item : items_of(call)) {
    const Value key = sort_key(call, item, path, case_sensitive);
    if (best && !(greatest ? less(call.heap(), best_key, key) : less(call.heap(), key, best_key))) continue;
    best = item;
    best_key = key;
  }
  return best.value_or(Value());
}

Value sum(Call& call) {
  Value total = call.get(1, "start", Value(int64_t{0}));
  const auto path = call.find(0, "attribute");
  for (const Value& item : items_of(call)) {
    const Value value = path && !path->is_none() ? get_path(call, item, *path) : item;
    total = binary_operation(call.heap(), "+", total, value, call.line);
  }
  return total;
}

Value dict_sort(Call& call) {
  require_defined(call.subject, call.line);
  const std::string by = call.string(1, "by", "key");
  if (by != "key" && by != "value") fail_at(call.line, "dictsort: by '{}', allowed: key, value", by);
  const Value path(int64_t{by == "value" ? 1 : 0});
  const bool case_sensitive = call.flag(0, "case_sensitive", false);
  return call.heap().list(sorted(call, pairs_of(call), call.flag(2, "reverse", false),
                                 [&](const Value& pair) { return sort_key(call, pair, path, case_sensitive); }));
}

Value group_by(Call& call) {
  const Value path = call.require(0, "attribute");
  const auto key_of = [&](const Value& item) { return sort_key(call, item, path, false); };
  const auto values = sorted(call, items_of(call), false, key_of);
  std::vector<Value> groups;
  std::optional<Value> key;
  for (const Value& item : values) {
    const Value own = key_of(item);
    if (!key || !equal(call.heap(), *key, own)) {
      groups.push_back(call.heap().list({get_path(call, item, path), call.heap().list()}, true));
      key = own;
    }
    call.heap().charge(sizeof(Value));
    groups.back().list().items[1].list().items.push_back(item);
  }
  return call.heap().list(std::move(groups));
}

Value batch(Call& call) {
  const auto size = static_cast<size_t>(std::clamp<int64_t>(call.integer(0, "linecount", 1), 1, INT32_MAX));
  const auto fill = call.find(1, "fill_with");
  std::vector<Value> rows;
  std::vector<Value> row;
  for (const Value& item : items_of(call)) {
    row.push_back(item);
    if (row.size() == size) rows.push_back(call.heap().list(std::exchange(row, {})));
  }
  if (!row.empty()) {
    if (fill && !fill->is_none()) {
      call.heap().charge(size * sizeof(Value));
      row.resize(size, *fill);
    }
    rows.push_back(call.heap().list(std::move(row)));
  }
  return call.heap().generator(std::move(rows));
}

// So many lists of about one length, the longer ones first.
Value slice(Call& call) {
  (void)call.require(0, "slices");
  const int64_t wanted = call.integer(0, "slices", 0);
  if (wanted == 0) fail_at(call.line, "division by zero");
  const auto count = static_cast<size_t>(std::max<int64_t>(wanted, 0));
  const Value fill = call.get(1, "fill_with", Value::none());
  const auto all = items_of(call);
  std::vector<Value> slices;
  auto next = all.begin();
  for (size_t i = 0; i < count; ++i) {
    const bool is_longer = i < all.size() % count;
    const auto end = next + static_cast<std::ptrdiff_t>(all.size() / count + (is_longer ? 1 : 0));
    std::vector<Value> items(next, end);
    if (!is_longer && !fill.is_none()) items.push_back(fill);
    slices.push_back(call.heap().list(std::move(items)));
    next = end;
  }
  return call.heap().generator(std::move(slices));
}

}  // namespace

void add_list_filters(FilterTable& table) {
  table.insert({
      {"length", length},
      {"count", length},
      {"join", join},
      {"first", first},
      {"last", last},
      {"list", [](Call& call) { return call.heap().list(items_of(call)); }},
      {"reverse", reverse},
      {"items", [](Call& call) { return call.heap().generator(pairs_of(call)); }},
      {"map", map},
      {"select", [](Call& call) { return choose(call, true, false); }},
      {"reject", [](Call& call) { return choose(call, false, false); }},
      {"selectattr", [](Call& call) { return choose(call, true, true); }},
      {"rejectattr", [](Call& call) { return choose(call, false, true); }},
      {"sort", sort},
      {"unique", unique},
      {"min", [](Call& call) { return extreme(call, false); }},
      {"max", [](Call& call) { return extreme(call, true); }},
      {"sum", sum},
      {"dictsort", dict_sort},
      {"groupby", group_by},
      {"batch", batch},
      {"slice", slice},
  });
}

}  // namespace inflight::jinja
