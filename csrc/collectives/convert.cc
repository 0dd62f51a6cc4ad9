#include "collectives/convert.h"

#include <cstring>
#include <limits>

#include "base/error.h"
#include "collectives/pass.h"

namespace hora {
namespace {

/// Calls `body` with a value of the C++ type of an integer type; bool is none.
template <typename Body>
void with_integer(DType dtype, Body body) {
  switch (dtype) {
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
    default:
      raise(ErrorKind::kSessionFailed, "{} is not scaled or divided as an integer", name(dtype));
  }
}

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
void scale_integers(const void* source, void* destination, std::size_t count, double factor) {
  const auto* from = static_cast<const T*>(source);
  auto* to = static_cast<T*>(destination);
  for (std::size_t at = 0; at < count; ++at) to[at] = truncate<T>(static_cast<double>(from[at]) * factor);
}

void convert(const void* source, DType from, void* destination, DType to, std::size_t count, double factor) {
  const auto* bytes = static_cast<const std::byte*>(source);
  const Destination written{static_cast<std::byte*>(destination)};
  convert_floats({{&bytes, 1}, {&written, 1}, count, factor}, from, to);
}

/// Scales without a change of type.
void copy_scaled(const void* source, DType dtype, void* destination, std::size_t count, double factor) {
  if (factor == 1.0) {
    if (source != destination && count != 0) std::memcpy(destination, source, count * size_of(dtype));
  } else if (info(dtype).is_floating) {
    convert(source, dtype, destination, dtype, count, factor);
  } else {
    with_integer(dtype, [&]<typename T>(T) { scale_integers<T>(source, destination, count, factor); });
  }
}

}  // namespace

void widen(const void* source, DType dtype, void* destination, std::size_t count, double factor) {
  if (is_half(dtype)) {
    convert(source, dtype, destination, DType::kFloat32, count, factor);
  } else {
    copy_scaled(source, dtype, destination, count, factor);
  }
}

void narrow(const void* source, DType dtype, void* destination, std::size_t count, double factor) {
  if (is_half(dtype)) {
    convert(source, DType::kFloat32, destination, dtype, count, factor);
  } else {
    copy_scaled(source, dtype, destination, count, factor);
  }
}

void divide(void* values, DType dtype, std::size_t count, std::int64_t divisor) {
  with_integer(dtype, [&]<typename T>(T) {
    auto* at = static_cast<T*>(values);
    for (auto* end = at + count; at != end; ++at)
      *at = static_cast<T>(*at / static_cast<std::int64_t>(divisor));
  });
}

}  // namespace hora
