// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_value.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "text/jinja_strings.h"
#include "text/unicode.h"

namespace inflight::jinja {
namespace {

constexpr size_t kEntryBytes = 100;  // of a mapping, with its place in the index

void check_depth(int depth) {
  if (depth > limits::kTemplateValueDepthMax) {
    fail(ErrorCode::InvalidArgument, "chat template: values nested deeper than {}", limits::kTemplateValueDepthMax);
  }
}

bool equal_lists(Heap& heap, const List& left, const List& right, int depth) {
  return std::ranges::equal(left.items, right.items,
                            [&](const Value& a, const Value& b) { return equal(heap, a, b, depth + 1); });
}

bool equal_iterators(Heap& heap, const List& left, const List& right, int depth) {
  if (&left == &right) return true;
  if (left.source != right.source || left.items.size() != right.items.size()) return false;
  if (left.source == List::Source::Range) return equal_lists(heap, left, right, depth);
  if (left.source != List::Source::Keys && left.source != List::Source::Items) return false;
  return std::ranges::all_of(left.items, [&](const Value& item) {  // as sets
    return std::ranges::any_of(right.items, [&](const Value& other) { return equal(heap, item, other, depth + 1); });
  });
}

bool equal_dicts(Heap& heap, const Dict& left, const Dict& right, int depth) {
  if (left.items.size() != right.items.size()) return false;
  return std::ranges::all_of(left.items, [&](const auto& item) {
    const auto other = right.find(heap, item.first);
    return other && equal(heap, item.second, *other, depth + 1);
  });
}

// repr(float)
std::string number_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

void write_quoted(std::string& out, std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  for (const std::string_view bytes : Characters(text)) {
    require_size(out.size());
    const char first = bytes[0];
    if (first == quote || first == '\\') {
      (out += '\\') += first;
    } else if (first == '\n' || first == '\r' || first == '\t') {
      (out += '\\') += first == '\n' ? 'n' : first == '\r' ? 'r' : 't';
    } else if (static_cast<uint8_t>(first) < 0x20 || first == 0x7F) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<uint8_t>(first));
    } else {
      out += bytes;
    }
  }
  out += quote;
}

class JsonWriter {
 public:
  JsonWriter(Heap& heap, const JsonFormat& format) : heap_(heap), format_(format) {
    if (format_.item_separator.empty()) format_.item_separator = format_.indent ? "," : ", ";
    if (format_.key_separator.empty()) format_.key_separator = ": ";
  }

  void write(const Value& value, int depth) {
    check_depth(depth);
    require_size(out_.size());
    switch (value.kind()) {
      case Kind::None:
        out_ += "null";
        break;
      case Kind::Boolean:
        out_ += value.integer() != 0 ? "true" : "false";
        break;
      case Kind::Integer:
        out_ += fmt::format("{}", value.integer());
        break;
      case Kind::Large:
        out_ += fmt::format("{}", value.large());
        break;
      case Kind::Float:
        write_number(value.number());
        break;
      case Kind::String:
        write_string(value.text());
        break;
      case Kind::List:
      case Kind::Tuple:
        write_list(value.list(), depth);
        break;
      case Kind::Dict:
        write_dict(value.dict(), depth);
        break;
      default:
        fail(ErrorCode::InvalidArgument, "chat template: a value of type {} cannot be written as JSON",
             type_name(value));
    }
  }
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  void write_number(double number) {
    out_ += std::isnan(number)   ? "NaN"
            : std::isinf(number) ? number > 0 ? "Infinity" : "-Infinity"
                                 : number_text(number);
  }

  void write_string(std::string_view text) {
    constexpr std::string_view kSpecial = "\"\\\b\f\n\r\t";
    constexpr std::string_view kLetters = "\"\\bfnrt";
    out_ += '"';
    for (const std::string_view bytes : Characters(text)) {
      require_size(out_.size());
      const char32_t code_point = first_utf8_character(bytes).code_point;
      if (const size_t index = kSpecial.find(bytes[0]); bytes.size() == 1 && index != std::string_view::npos) {
        (out_ += '\\') += kLetters[index];
      } else if (code_point < 0x20 || (format_.ensure_ascii && code_point >= 0x7F)) {
        if (code_point >= 0x10000) {
          fmt::format_to(std::back_inserter(out_), "\\u{:04x}\\u{:04x}", 0xD7C0 + (code_point >> 10U),
                         0xDC00 + (code_point & 0x3FFU));
        } else {
          fmt::format_to(std::back_inserter(out_), "\\u{:04x}", static_cast<uint32_t>(code_point));
        }
      } else {
        out_ += bytes;
      }
    }
    out_ += '"';
  }

  void begin_line(int depth) {
    if (!format_.indent) return;
    out_ += '\n';
    for (int i = 0; i < depth && !format_.indent->empty(); ++i) add_text(out_, *format_.indent);
  }

  void write_list(const List& list, int depth) {
    out_ += '[';
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) add_text(out_, format_.item_separator);
      begin_line(depth + 1);
      write(list.items[i], depth + 1);
    }
    if (!list.items.empty()) begin_line(depth);
    out_ += ']';
  }

  void write_dict(const Dict& dict, int depth) {
    std::vector<std::pair<Value, Value>> items = dict.items;
    if (format_.sort_keys) {
      std::ranges::stable_sort(items, [this](const auto& a, const auto& b) { return less(heap_, a.first, b.first); });
    }
    out_ += '{';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) add_text(out_, format_.item_separator);
      begin_line(depth + 1);
      write_key(items[i].first);
      add_text(out_, format_.key_separator);
      write(items[i].second, depth + 1);
    }
    if (!items.empty()) begin_line(depth);
    out_ += '}';
  }

  void write_key(const Value& key) {
    if (key.is_string()) return write_string(key.text());
    if (key.is_list() || key.is_dict()) {
      fail(ErrorCode::InvalidArgument, "chat template: a key of type {} cannot be written as JSON", type_name(key));
    }
    out_ += '"';
    write(key, 0);
    out_ += '"';
  }

  Heap& heap_;
  JsonFormat format_;
  std::string out_;
};

}  // namespace

std::optional<Value> Dict::find(std::string_view key) const {
  const auto found = index.find(key);
  return found == index.end() ? std::nullopt : std::optional(items[found->second].second);
}

std::optional<size_t> Dict::place_of(Heap& heap, const Value& key) const {
  if (key.is_string()) {
    heap.work(key.text().size());
    const auto found = index.find(std::string_view(key.text()));
    return found == index.end() ? std::nullopt : std::optional(found->second);
  }
  require_key(heap, key);
  const auto found = std::ranges::find_if(items, [&](const auto& item) { return equal(heap, item.first, key); });
  return found == items.end() ? std::nullopt : std::optional(static_cast<size_t>(found - items.begin()));
}

std::optional<Value> Dict::find(Heap& heap, const Value& key) const {
  const auto place = place_of(heap, key);
  return place ? std::optional(items[*place].second) : std::nullopt;
}

void Dict::set(Heap& heap, const Value& key, const Value& value) {
  if (const auto place = place_of(heap, key)) {
    items[*place].second = value;
    return;
  }
  heap.charge(kEntryBytes);
  if (key.is_string()) index.emplace(key.text(), items.size());
  items.emplace_back(key, value);
}

void Heap::charge(size_t bytes) {
  bytes_ += bytes;
  require_size(bytes_);
}

void Heap::work(size_t amount) {
  work_ += amount;
  if (work_ > limits::kTemplateWorkMax) {
    fail(ErrorCode::InvalidArgument, "chat template: looks at more than {} bytes", limits::kTemplateWorkMax);
  }
}

Value Heap::string(std::string text, bool is_markup) {
  charge(sizeof(std::string) + text.size());
  return Value(&strings_.emplace_back(std::move(text)), is_markup);
}

Value Heap::list(std::vector<Value> items, bool is_tuple) {
  charge(sizeof(List) + items.size() * sizeof(Value));
  return {&lists_.emplace_back(List{.items = std::move(items)}), is_tuple ? Kind::Tuple : Kind::List};
}

Value Heap::iterator(List::Source source, std::vector<Value> items) {
  charge(sizeof(List) + items.size() * sizeof(Value));
  return {&lists_.emplace_back(List{.items = std::move(items), .source = source}), Kind::Iterator};
}

Value Heap::dict(bool is_namespace) {
  charge(sizeof(Dict));
  return {&dicts_.emplace_back(), is_namespace};
}

Function& Heap::new_function(std::string name) {
  charge(sizeof(Function) + name.size());
  functions_.emplace_back();
  functions_.back().name = std::move(name);
  return functions_.back();
}

Value Heap::function(std::string name, std::function<Value(Call&)> call) {
  Function& function = new_function(std::move(name));
  function.call = std::move(call);
  return Value(&function);
}

Value Heap::from_json(const nlohmann::ordered_json& json, int depth) {
  check_depth(depth);
  if (json.is_null()) return Value::none();
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_string()) return string(json.get<std::string>());
  // Those beyond 64 bits are floats, as the JSON reader has them.
  const bool large = json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  if (large) return Value::large(json.get<uint64_t>());
  if (json.is_number_integer()) return Value(json.get<int64_t>());
  if (json.is_number()) return Value(json.get<double>());
  if (json.is_array()) {
    const Value value = list();
    charge(json.size() * sizeof(Value));
    for (const auto& item : json) value.list().items.push_back(from_json(item, depth + 1));
    return value;
  }
  const Value value = dict();
  for (const auto& [key, item] : json.items()) value.dict().set(*this, string(key), from_json(item, depth + 1));
  return value;
}

bool is_sequence(const Value& value) {
  return value.is_list() || (value.is_iterator() && value.list().source == List::Source::Range);
}

bool is_generator(const Value& value) { return value.is_iterator() && value.list().source == List::Source::Generator; }

std::vector<Value> take_items(const Value& value) {
  return is_generator(value) ? std::exchange(value.list().items, {}) : value.list().items;
}

void require_key(Heap& heap, const Value& value, int depth) {
  check_depth(depth);
  heap.work(sizeof(Value));
  const bool is_set = value.is_iterator() && (type_name(value) == "dict_keys" || type_name(value) == "dict_items");
  if (value.kind() == Kind::List || value.is_dict() || is_set) {
    fail(ErrorCode::InvalidArgument, "chat template: a value of type {} cannot be a key", type_name(value));
  }
  if (value.kind() != Kind::Tuple) return;
  for (const Value& item : value.list().items) require_key(heap, item, depth + 1);
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::Undefined:
    case Kind::None:
      return false;
    case Kind::Boolean:
    case Kind::Integer:
      return value.integer() != 0;
    case Kind::Large:
      return true;
    case Kind::Float:
      return value.number() != 0;
    case Kind::String:
      return !value.text().empty();
    case Kind::List:
    case Kind::Tuple:
      return !value.list().items.empty();
    case Kind::Iterator:
      return is_generator(value) || !value.list().items.empty();
    case Kind::Dict:
      return !value.dict().items.empty();
    default:
      return true;
  }
}

namespace {

bool are_whole(const Value& left, const Value& right) {
  return (left.is_integer() || left.is_large()) && (right.is_integer() || right.is_large());
}

}  // namespace

bool equal(Heap& heap, const Value& left, const Value& right, int depth) {
  check_depth(depth);
  heap.work(sizeof(Value));
  if (left.is_large() && right.is_large()) return left.large() == right.large();
  if (are_whole(left, right) && left.is_large() != right.is_large()) return false;
  if (left.is_integer() && right.is_integer()) return left.integer() == right.integer();
  if (left.is_number() && right.is_number()) return left.number() == right.number();
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::String:
      heap.work(std::min(left.text().size(), right.text().size()));
      return left.text() == right.text();
    case Kind::List:
    case Kind::Tuple:
      return equal_lists(heap, left.list(), right.list(), depth);
    case Kind::Iterator:
      return equal_iterators(heap, left.list(), right.list(), depth);
    case Kind::Dict:
      return equal_dicts(heap, left.dict(), right.dict(), depth);
    case Kind::Namespace:
      return &left.dict() == &right.dict();
    case Kind::Function:
      return &left.function() == &right.function();
    default:
      return true;  // undefined, none
  }
}

bool less(Heap& heap, const Value& left, const Value& right, int depth) {
  check_depth(depth);
  heap.work(sizeof(Value));
  if (left.is_large() && right.is_large()) return left.large() < right.large();
  if (are_whole(left, right) && left.is_large() != right.is_large()) return right.is_large();
  if (left.is_integer() && right.is_integer()) return left.integer() < right.integer();
  if (left.is_number() && right.is_number()) return left.number() < right.number();
  if (left.is_string() && right.is_string()) {
    heap.work(std::min(left.text().size(), right.text().size()));
    return left.text() < right.text();  // UTF-8 sorts as its characters do
  }
  if (left.is_list() && left.kind() == right.kind()) {
    const auto& a = left.list().items;
    const auto& b = right.list().items;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (!equal(heap, a[i], b[i], depth + 1)) return less(heap, a[i], b[i], depth + 1);
    }
    return a.size() < b.size();
  }
  fail(ErrorCode::InvalidArgument, "chat template: {} and {} cannot be compared", type_name(left), type_name(right));
}

namespace {

void write_repr(Heap& heap, std::string& out, const Value& value, int depth);

void write_items(Heap& heap, std::string& out, const List& list, int depth) {
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out += ", ";
    write_repr(heap, out, list.items[i], depth + 1);
  }
}

void write_entries(Heap& heap, std::string& out, const Dict& dict, int depth) {
  out += '{';
  for (size_t i = 0; i < dict.items.size(); ++i) {
    if (i > 0) out += ", ";
    write_repr(heap, out, dict.items[i].first, depth + 1);
    out += ": ";
    write_repr(heap, out, dict.items[i].second, depth + 1);
  }
  out += '}';
}

void write_iterator(Heap& heap, std::string& out, const Value& value, int depth) {
  const List& list = value.list();
  if (is_generator(value)) {
    out += "<generator object>";
  } else if (list.source == List::Source::Range) {
    const auto [first, end, step] = list.range;
    out += step == 1 ? fmt::format("range({}, {})", first, end) : fmt::format("range({}, {}, {})", first, end, step);
  } else {
    (out += type_name(value)) += "([";
    write_items(heap, out, list, depth);
    out += "])";
  }
}

void write_repr(Heap& heap, std::string& out, const Value& value, int depth) {
  check_depth(depth);
  require_size(out.size());
  heap.work(sizeof(Value));
  switch (value.kind()) {
    case Kind::Undefined:
      out += "Undefined";
      break;
    case Kind::None:
      out += "None";
      break;
    case Kind::Boolean:
      out += value.integer() != 0 ? "True" : "False";
      break;
    case Kind::Integer:
      out += fmt::format("{}", value.integer());
      break;
    case Kind::Large:
      out += fmt::format("{}", value.large());
      break;
    case Kind::Float:
      out += number_text(value.number());
      break;
    case Kind::String:
      if (value.is_markup()) out += "Markup(";
      write_quoted(out, value.text());
      if (value.is_markup()) out += ')';
      break;
    case Kind::List:
      out += '[';
      write_items(heap, out, value.list(), depth);
      out += ']';
      break;
    case Kind::Tuple:
      out += '(';
      write_items(heap, out, value.list(), depth);
      out += value.list().items.size() == 1 ? ",)" : ")";
      break;
    case Kind::Iterator:
      write_iterator(heap, out, value, depth);
      break;
    case Kind::Dict:
      write_entries(heap, out, value.dict(), depth);
      break;
    case Kind::Namespace:
      out += "<Namespace ";
      write_entries(heap, out, value.dict(), depth);
      out += '>';
      break;
    case Kind::Function:
      out += "<function " + value.function().name + ">";
      break;
  }
}

}  // namespace

std::string to_string(Heap& heap, const Value& value) {
  if (value.is_undefined()) return "";
  if (!value.is_string()) return to_repr(heap, value);
  heap.work(value.text().size());
  return value.text();
}

std::string to_repr(Heap& heap, const Value& value) {
  std::string out;
  write_repr(heap, out, value, 0);
  heap.work(out.size());
  return out;
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::Undefined:
      return "Undefined";
    case Kind::None:
      return "NoneType";
    case Kind::Boolean:
      return "bool";
    case Kind::Integer:
    case Kind::Large:
      return "int";
    case Kind::Float:
      return "float";
    case Kind::String:
      return "str";
    case Kind::List:
      return "list";
    case Kind::Tuple:
      return "tuple";
    case Kind::Iterator: {
      constexpr std::string_view kNames[] = {"generator", "dict_keys", "dict_values", "dict_items", "range"};
      return kNames[static_cast<size_t>(value.list().source)];
    }
    case Kind::Dict:
      return "dict";
    case Kind::Namespace:
      return "Namespace";
    case Kind::Function:
      return "function";
  }
  return "";
}

std::string to_json(Heap& heap, const Value& value, const JsonFormat& format) {
  JsonWriter writer(heap, format);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace inflight::jinja
