#include "core/tensor_ref.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "base/text.h"

namespace hora {

std::int64_t element_count(std::span<const std::int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::size_t TensorType::row_bytes() const {
  return static_cast<std::size_t>(element_count(std::span(shape).subspan(1))) * size_of(dtype);
}

std::string describe(DType dtype, std::span<const std::int64_t> shape) {
  std::vector<std::string> extents;
  for (const std::int64_t extent : shape) extents.push_back(extent < 0 ? "*" : fmt::format("{}", extent));
  return fmt::format("{}[{}]", name(dtype), join(extents, ","));
}

}  // namespace hora
