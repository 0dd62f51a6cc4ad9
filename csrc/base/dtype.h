#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hora {

/// Element types. The values are part of the wire format and of the Python and C interfaces.
enum class DType : std::uint8_t {
  kBool,
  kUInt8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64
};

struct DTypeInfo {
  std::string_view name;
  std::size_t size;  ///< bytes per element
  bool is_floating;
};

inline constexpr std::array<DTypeInfo, 10> kDTypes{{
    {"bool", 1, false},
    {"uint8", 1, false},
    {"int8", 1, false},
    {"int16", 2, false},
    {"int32", 4, false},
    {"int64", 8, false},
    {"float16", 2, true},
    {"bfloat16", 2, true},
    {"float32", 4, true},
    {"float64", 8, true},
}};

constexpr const DTypeInfo& info(DType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)];
}
constexpr std::string_view name(DType dtype) {
  return info(dtype).name;
}
constexpr std::size_t size_of(DType dtype) {
  return info(dtype).size;
}
constexpr bool is_half(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

/// The type in which values are summed and partial results travel: halves as float32, rounded once at the
/// end.
constexpr DType accumulation_type(DType dtype) {
  return is_half(dtype) ? DType::kFloat32 : dtype;
}

}  // namespace hora
