#include "collectives/convert.h"

#include <cstring>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "base/half.h"

namespace hora {
namespace {

/// Calls `body` with a value of the C++ type that stores `dtype`.
template <typename Body>
void with_type(DType dtype, Body body) {
  switch (dtype) {
    case DType::kBool:
      return body(bool{});
    case DType::kUInt8:
      return body(std::uint8_t{});
    case DType::kInt8:
      return body(std::int8_t{});
    case DType::kInt16:
      return body(std::int16_t{});
    case DType::kInt32:
      return body(std::int32_t{});
    case DType::kInt64:
      return body(std::int64_t{});
    case DType::kFloat16:
      return body(Float16{});
    case DType::kBFloat16:
      return body(BFloat16{});
    case DType::kFloat32:
      return body(float{});
    case DType::kFloat64:
      return body(double{});
  }
  raise(ErrorKind::kSessionFailed, "unknown element type {}", static_cast<int>(dtype));
}

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

/// Truncates toward zero; what does not fit becomes the nearest value that does, and NaN becomes 0.
template <typename T>
T truncate(double value) {
  constexpr auto kLowest = static_cast<double>(std::numeric_limits<T>::min());
  constexpr auto kHighest = static_cast<double>(std::numeric_limits<T>::max());
  if (value >= kHighest) return std::numeric_limits<T>::max();
  if (value <= kLowest) return std::numeric_limits<T>::min();
  return value == value ? static_cast<T>(value) : T{0};
}

template <typename T>
T scaled(T value, double factor) {
  if constexpr (std::is_floating_point_v<T>) {
    return value * static_cast<T>(factor);
  } else {
    return truncate<T>(static_cast<double>(value) * factor);
  }
}

template <typename T>
void copy_scaled(const void* source, void* destination, std::size_t count, double factor) {
  if (factor == 1.0) {
    if (source != destination && count != 0) std::memcpy(destination, source, count * sizeof(T));
    return;
  }
  const auto* from = static_cast<const T*>(source);
  auto* to = static_cast<T*>(destination);
  for (std::size_t at = 0; at < count; ++at) to[at] = scaled<T>(from[at], factor);
}

template <typename Half>
void widen_half(const void* source, void* destination, std::size_t count, float factor) {
  const auto* from = static_cast<const Half*>(source);
  auto* to = static_cast<float*>(destination);
  for (std::size_t at = 0; at < count; ++at) to[at] = to_float(from[at]) * factor;
}

template <typename Half>
void narrow_half(const void* source, void* destination, std::size_t count, float factor) {
  const auto* from = static_cast<const float*>(source);
  auto* to = static_cast<Half*>(destination);
  for (std::size_t at = 0; at < count; ++at) {
    if constexpr (std::is_same_v<Half, Float16>) {
      to[at] = to_float16(from[at] * factor);
    } else {
      to[at] = to_bfloat16(from[at] * factor);
    }
  }
}

}  // namespace

void widen(const void* source, DType dtype, void* destination, std::size_t count, double factor) {
  with_type(dtype, [&]<typename T>(T) {
    if constexpr (kIsHalf<T>) {
      widen_half<T>(source, destination, count, static_cast<float>(factor));
    } else {
      copy_scaled<T>(source, destination, count, factor);
    }
  });
}

void narrow(const void* source, DType dtype, void* destination, std::size_t count, double factor) {
  with_type(dtype, [&]<typename T>(T) {
    if constexpr (kIsHalf<T>) {
      narrow_half<T>(source, destination, count, static_cast<float>(factor));
    } else {
      copy_scaled<T>(source, destination, count, factor);
    }
  });
}

void divide(void* values, DType dtype, std::size_t count, std::int64_t divisor) {
  with_type(dtype, [&]<typename T>(T) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      auto* at = static_cast<T*>(values);
      for (auto* end = at + count; at != end; ++at)
        *at = static_cast<T>(*at / static_cast<std::int64_t>(divisor));
    } else {
      raise(ErrorKind::kSessionFailed, "integer division of {}", name(dtype));
    }
  });
}

}  // namespace hora
