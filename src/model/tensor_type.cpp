// SPDX-License-Identifier: Apache-2.0
#include "model/tensor_type.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

#include "base/error.h"

namespace inflight {
namespace {

// Ids and unit sizes of every tensor type in GGUF's specification; ids it has withdrawn are left
// out.
constexpr StoredType kStoredTypes[] = {
    {0, "F32", {1, 4}},         {1, "F16", {1, 2}},         {2, "Q4_0", {32, 18}},      {3, "Q4_1", {32, 20}},
    {6, "Q5_0", {32, 22}},      {7, "Q5_1", {32, 24}},      {8, "Q8_0", {32, 34}},      {9, "Q8_1", {32, 40}},
    {10, "Q2_K", {256, 84}},    {11, "Q3_K", {256, 110}},   {12, "Q4_K", {256, 144}},   {13, "Q5_K", {256, 176}},
    {14, "Q6_K", {256, 210}},   {15, "Q8_K", {256, 292}},   {16, "IQ2_XXS", {256, 66}}, {17, "IQ2_XS", {256, 74}},
    {18, "IQ3_XXS", {256, 98}}, {19, "IQ1_S", {256, 50}},   {20, "IQ4_NL", {32, 18}},   {21, "IQ3_S", {256, 110}},
    {22, "IQ2_S", {256, 82}},   {23, "IQ4_XS", {256, 136}}, {24, "I8", {1, 1}},         {25, "I16", {1, 2}},
    {26, "I32", {1, 4}},        {27, "I64", {1, 8}},        {28, "F64", {1, 8}},        {29, "IQ1_M", {256, 56}},
    {30, "BF16", {1, 2}},       {34, "TQ1_0", {256, 54}},   {35, "TQ2_0", {256, 66}},   {39, "MXFP4", {32, 17}},
    {40, "NVFP4", {64, 36}},    {41, "Q1_0", {128, 18}},
};

constexpr std::array kWritten = {TensorType::F32, TensorType::F16, TensorType::BF16, TensorType::Q8_0,
                                 TensorType::Q4_0};
// Kernels compute with these, too.
constexpr std::array kComputed = {TensorType::Q4_1, TensorType::Q5_1, TensorType::Q6_K, TensorType::IQ4_NL,
                                  TensorType::MXFP4};
// And with what these become.
constexpr std::array kConverted = {TensorType::Q5_0, TensorType::Q2_K, TensorType::Q3_K,
                                   TensorType::Q4_K, TensorType::Q5_K, TensorType::IQ4_XS};

bool contains(std::span<const TensorType> types, TensorType type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

const StoredType& stored(TensorType type) {
  const StoredType* entry = find_stored_type(static_cast<uint32_t>(type));
  INFLIGHT_CHECK(entry != nullptr);
  return *entry;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::toupper(x) == std::toupper(y); });
}

std::optional<TensorType> named(std::span<const TensorType> types, std::string_view name) {
  for (const TensorType type : types) {
    if (equal_ignoring_case(name, to_string(type))) return type;
  }
  return {};
}

std::string names_of(std::span<const TensorType> types) {
  std::string names;
  for (const TensorType type : types) names += (names.empty() ? "" : ", ") + std::string(to_string(type));
  return names;
}

}  // namespace

const StoredType* find_stored_type(uint32_t id) {
  const auto* const found = std::find_if(std::begin(kStoredTypes), std::end(kStoredTypes),
                                         [id](const StoredType& type) { return type.id == id; });
  return found == std::end(kStoredTypes) ? nullptr : found;
}

std::optional<TensorType> readable_type(uint32_t id) {
  const auto type = static_cast<TensorType>(id);
  if (contains(kWritten, type) || contains(kComputed, type) || contains(kConverted, type)) return type;
  return {};
}

TensorUnit unit_of(TensorType type) { return stored(type).unit; }

const char* to_string(TensorType type) { return stored(type).name; }

std::optional<TensorType> parse_tensor_type(std::string_view name) { return named(kWritten, name); }

std::optional<TensorType> parse_computed_type(std::string_view name) {
  const std::optional<TensorType> type = parse_tensor_type(name);
  return type ? type : named(kComputed, name);
}

TensorType computed_type(TensorType type) {
  switch (type) {
    case TensorType::Q4_K:
      return TensorType::Q4_1;
    case TensorType::Q5_0:
    case TensorType::Q5_K:
      return TensorType::Q5_1;
    case TensorType::Q3_K:
      return TensorType::Q6_K;
    case TensorType::IQ4_XS:
      return TensorType::IQ4_NL;
    case TensorType::Q2_K:
      return TensorType::Q8_0;
    default:
      return type;
  }
}

std::string computed_type_names() { return names_of(kWritten) + ", " + names_of(kComputed); }

std::string readable_type_names() { return computed_type_names() + ", " + names_of(kConverted); }

size_t row_bytes(TensorType type, int64_t columns) {
  const TensorUnit unit = unit_of(type);
  INFLIGHT_CHECK(columns >= 0 && columns % unit.numbers == 0);
  return static_cast<size_t>(columns / unit.numbers) * static_cast<size_t>(unit.bytes);
}

}  // namespace inflight
