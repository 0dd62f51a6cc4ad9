#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "core/op.h"

namespace hora {

using Shape = std::vector<std::int64_t>;

/// Number of elements; 1 for a scalar.
[[nodiscard]] std::int64_t element_count(std::span<const std::int64_t> shape);

/// "float32[2,3]"; an extent that is not agreed is "*".
[[nodiscard]] std::string describe(DType dtype, std::span<const std::int64_t> shape);

/// What the ranks agree on about one tensor.
struct TensorType {
  DType dtype = DType::kFloat32;
  Shape shape;

  /// Size, where no dimension is ragged.
  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(element_count(shape)); }
  [[nodiscard]] std::size_t bytes() const { return count() * size_of(dtype); }
  /// Size of one element of the first dimension.
  [[nodiscard]] std::size_t row_bytes() const;

  bool operator==(const TensorType&) const = default;
};

/// Non-owning view of a dense C-contiguous tensor. Whoever submits it keeps the memory alive until the
/// operation is complete.
struct TensorRef {
  std::byte* data = nullptr;
  Shape shape;
  DType dtype = DType::kFloat32;
  DeviceKind device = DeviceKind::kHost;

  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(element_count(shape)); }
  [[nodiscard]] std::size_t bytes() const { return count() * size_of(dtype); }
};

}  // namespace hora
