#include "support/tensor.h"

#include <cstring>
#include <stdexcept>

#include "base/half.h"

namespace hora::testing {
namespace {

template <typename Body>
auto with_type(DType dtype, Body body) {
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
  throw std::logic_error("unknown dtype");
}

template <typename T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    return static_cast<T>(static_cast<std::int64_t>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
double to_double(T value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    return to_float(value);
  } else {
    return static_cast<double>(value);
  }
}

}  // namespace

Tensor::Tensor(DType dtype, Shape shape)
    : dtype_(dtype),
      shape_(std::move(shape)),
      bytes_(static_cast<std::size_t>(element_count(shape_)) * size_of(dtype), std::byte{0xa5}) {}

Tensor::Tensor(DType dtype, Shape shape, const std::function<double(std::size_t index)>& value)
    : Tensor(dtype, std::move(shape)) {
  with_type(dtype, [&]<typename T>(T) {
    for (std::size_t index = 0; index < count(); ++index) {
      const T element = from_double<T>(value(index));
      std::memcpy(bytes_.data() + index * sizeof(T), &element, sizeof(T));
    }
  });
}

std::vector<double> Tensor::values() const {
  return values_of(dtype_, bytes_);
}

TensorRef Tensor::ref() {
  return {bytes_.data(), shape_, dtype_, DeviceKind::kHost};
}

std::vector<double> values_of(DType dtype, std::span<const std::byte> bytes) {
  std::vector<double> values;
  with_type(dtype, [&]<typename T>(T) {
    for (std::size_t first = 0; first < bytes.size(); first += sizeof(T)) {
      T element;
      std::memcpy(&element, bytes.data() + first, sizeof(T));
      values.push_back(to_double(element));
    }
  });
  return values;
}

double stored(DType dtype, double value) {
  return with_type(dtype, [value]<typename T>(T) { return to_double(from_double<T>(value)); });
}

}  // namespace hora::testing
