// SPDX-License-Identifier: Apache-2.0
// Values of chat templates, with Python's meaning of truth, equality, order, str() and repr(). A Value is 16 bytes and
// copied freely; what it refers to belongs to the Heap of one rendering and lives as long as that.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace inflight::jinja {

class Interpreter;
struct Call;
struct Dict;
struct Function;
class Heap;
struct List;

// Large: an integer above 2^63 - 1, of 64 bits, which is written and compared; to reckon with it is an error.
// Iterator: what has items and is no list, such as a mapping's keys.
enum class Kind : uint8_t {
  Undefined,
  None,
  Boolean,
  Integer,
  Large,
  Float,
  String,
  List,
  Tuple,
  Iterator,
  Dict,
  Namespace,
  Function
};

class Value {
 public:
  Value() : integer_(0) {}  // undefined, without a name
  static Value none() { return Value(Kind::None); }
  explicit Value(bool value) : kind_(Kind::Boolean), integer_(value ? 1 : 0) {}
  explicit Value(int64_t value) : kind_(Kind::Integer), integer_(value) {}
  explicit Value(double value) : kind_(Kind::Float), number_(value) {}
  static Value large(uint64_t value) {
    Value made(Kind::Large);
    made.large_ = value;
    return made;
  }
  explicit Value(const std::string* text, bool is_markup = false)
      : kind_(Kind::String), is_markup_(is_markup), text_(text) {}
  Value(List* list, Kind kind) : kind_(kind), list_(list) {}  // List, Tuple, Iterator
  Value(Dict* dict, bool is_namespace) : kind_(is_namespace ? Kind::Namespace : Kind::Dict), dict_(dict) {}
  explicit Value(const Function* function) : kind_(Kind::Function), function_(function) {}
  // What a missing variable or item gives; name: for the error of those who use it, or null.
  static Value undefined(const std::string* name) {
    Value value;
    value.text_ = name;
    return value;
  }

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool is_undefined() const { return kind_ == Kind::Undefined; }
  [[nodiscard]] bool is_none() const { return kind_ == Kind::None; }
  [[nodiscard]] bool is_string() const { return kind_ == Kind::String; }
  // A text that filter `safe` or `escape` gave: what is joined with it by + or its methods is escaped as in HTML.
  [[nodiscard]] bool is_markup() const { return is_markup_; }
  [[nodiscard]] Value as_markup() const { return Value(text_, true); }  // REQUIRES: is_string()
  [[nodiscard]] bool is_integer() const { return kind_ == Kind::Integer || kind_ == Kind::Boolean; }  // as in Python
  [[nodiscard]] bool is_large() const { return kind_ == Kind::Large; }
  [[nodiscard]] bool is_number() const { return is_integer() || is_large() || kind_ == Kind::Float; }
  [[nodiscard]] bool is_list() const { return kind_ == Kind::List || kind_ == Kind::Tuple; }
  [[nodiscard]] bool is_iterator() const { return kind_ == Kind::Iterator; }
  [[nodiscard]] bool is_dict() const { return kind_ == Kind::Dict; }

  // REQUIRES (these seven): the kind.
  [[nodiscard]] int64_t integer() const { return integer_; }  // of booleans too
  [[nodiscard]] uint64_t large() const { return large_; }
  [[nodiscard]] double number() const {
    return kind_ == Kind::Float ? number_ : is_large() ? static_cast<double>(large_) : static_cast<double>(integer_);
  }
  [[nodiscard]] const std::string& text() const { return *text_; }
  [[nodiscard]] List& list() const { return *list_; }  // of iterators too
  [[nodiscard]] Dict& dict() const { return *dict_; }  // of namespaces too
  [[nodiscard]] const Function& function() const { return *function_; }
  [[nodiscard]] std::string_view undefined_name() const {
    return text_ == nullptr ? "value" : std::string_view(*text_);
  }

 private:
  explicit Value(Kind kind) : kind_(kind), integer_(0) {}

  Kind kind_ = Kind::Undefined;
  bool is_markup_ = false;
  union {
    int64_t integer_;
    uint64_t large_;
    double number_;
    const std::string* text_;
    List* list_;
    Dict* dict_;
    const Function* function_;
  };
};

struct List {
  // Of iterators: a generator gives its items once; the others are views of a mapping, and range().
  enum class Source : uint8_t { Generator, Keys, Values, Items, Range };

  std::vector<Value> items;
  Source source = Source::Generator;
  std::array<int64_t, 3> range{};  // first, end, step
};

// In order of insertion.
struct Dict {
  std::vector<std::pair<Value, Value>> items;
  std::unordered_map<std::string_view, size_t> index;  // of string keys

  [[nodiscard]] std::optional<Value> find(std::string_view key) const;
  // COST (these two): O(bytes) for string keys, O(entries) for others, which `heap` counts.
  [[nodiscard]] std::optional<Value> find(Heap& heap, const Value& key) const;
  // ERRORS: as Heap's for what a new entry takes.
  void set(Heap& heap, const Value& key, const Value& value);

 private:
  [[nodiscard]] std::optional<size_t> place_of(Heap& heap, const Value& key) const;
};

// Macros, methods bound to their value, global functions, and the loop variable (callable where the loop is recursive).
struct Function {
  std::string name;
  std::function<Value(Call&)> call;
  // Of the loop variable only.
  const List* items = nullptr;
  size_t index = 0;  // of the present item
  int64_t depth = 0;
  std::optional<Value> last_changed;  // what loop.changed() was last called with
};

// Owns what values refer to.
class Heap {
 public:
  // ERRORS: InvalidArgument when the rendering has made more than limits::kTemplateValueBytesMax.
  Value string(std::string text, bool is_markup = false);
  Value list(std::vector<Value> items = {}, bool is_tuple = false);
  Value iterator(List::Source source, std::vector<Value> items);
  Value generator(std::vector<Value> items) { return iterator(List::Source::Generator, std::move(items)); }
  Value dict(bool is_namespace = false);
  Value function(std::string name, std::function<Value(Call&)> call);
  // The function itself, to be filled in.
  Function& new_function(std::string name);
  // ERRORS: InvalidArgument for nesting deeper than limits::kTemplateValueDepthMax.
  Value from_json(const nlohmann::ordered_json& json, int depth = 0);

  // Counts bytes made elsewhere, such as output, and no longer counts them.
  void charge(size_t bytes);
  void refund(size_t bytes) { bytes_ -= bytes; }
  // Counts bytes of text and values that are looked at.   ERRORS: InvalidArgument beyond limits::kTemplateWorkMax.
  void work(size_t amount);

 private:
  std::deque<std::string> strings_;
  std::deque<List> lists_;
  std::deque<Dict> dicts_;
  std::deque<Function> functions_;
  size_t bytes_ = 0;
  size_t work_ = 0;
};

// Whether its items have places: a list, tuple or range().
[[nodiscard]] bool is_sequence(const Value& value);
[[nodiscard]] bool is_generator(const Value& value);
// The items of a list, tuple or iterator; a generator has none any more.   REQUIRES: one of them.
[[nodiscard]] std::vector<Value> take_items(const Value& value);
// ERRORS: InvalidArgument for what Python does not take as a key: lists and mappings; too deep nesting, too much work.
void require_key(Heap& heap, const Value& value, int depth = 0);
// bool(value)
[[nodiscard]] bool truth(const Value& value);
// left == right, counted as the heap's work.   ERRORS (these four): InvalidArgument for too deep nesting, too much
// work.
[[nodiscard]] bool equal(Heap& heap, const Value& left, const Value& right, int depth = 0);
// left < right, the same.   ERRORS: InvalidArgument for kinds that Python does not order.
[[nodiscard]] bool less(Heap& heap, const Value& left, const Value& right, int depth = 0);
// str(value) and repr(value), counted as the heap's work.
// ERRORS (also to_json): InvalidArgument for a text beyond limits::kTemplateValueBytesMax, too much work.
[[nodiscard]] std::string to_string(Heap& heap, const Value& value);
[[nodiscard]] std::string to_repr(Heap& heap, const Value& value);
// "str", "int", ...: the type's name in Python.
[[nodiscard]] std::string_view type_name(const Value& value);

struct JsonFormat {
  std::optional<std::string> indent;  // null: one line
  std::string item_separator;         // empty: ", ", or "," with indent
  std::string key_separator;          // empty: ": "
  bool ensure_ascii = false;
  bool sort_keys = false;
};
// json.dumps(value).  ERRORS: InvalidArgument for what is no JSON.
[[nodiscard]] std::string to_json(Heap& heap, const Value& value, const JsonFormat& format);

}  // namespace inflight::jinja
