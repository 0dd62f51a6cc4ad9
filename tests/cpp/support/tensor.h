#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "core/tensor_ref.h"

namespace hora::testing {

/// A tensor with its memory whose elements are written and read as float64 whatever their type.
class Tensor {
 public:
  /// All bytes are 0xa5, so that an element nobody wrote is noticed.
  Tensor(DType dtype, Shape shape);
  /// Elements are `value(index)`, converted; integers wrap around, bool is `value != 0`.
  Tensor(DType dtype, Shape shape, const std::function<double(std::size_t index)>& value);

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] std::size_t count() const { return bytes_.size() / size_of(dtype_); }
  [[nodiscard]] const Bytes& bytes() const { return bytes_; }
  [[nodiscard]] std::vector<double> values() const;
  [[nodiscard]] TensorRef ref();

 private:
  DType dtype_;
  Shape shape_;
  Bytes bytes_;
};

/// The elements in `bytes` as float64.
[[nodiscard]] std::vector<double> values_of(DType dtype, std::span<const std::byte> bytes);

/// The value that `dtype` stores for `value`, rounded or wrapped.
[[nodiscard]] double stored(DType dtype, double value);

inline constexpr DType kAllDTypes[] = {DType::kBool,    DType::kUInt8,  DType::kInt8,    DType::kInt16,
                                       DType::kInt32,   DType::kInt64,  DType::kFloat16, DType::kBFloat16,
                                       DType::kFloat32, DType::kFloat64};

}  // namespace hora::testing
