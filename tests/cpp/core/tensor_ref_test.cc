#include "core/tensor_ref.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(TensorRef, a_scalar_has_one_element) {
  EXPECT_EQ(element_count(Shape{}), 1);
}

TEST(TensorRef, a_shape_with_a_zero_is_empty) {
  EXPECT_EQ(element_count(Shape{5, 0, 7}), 0);
}

TEST(TensorRef, counts_beyond_32_bits_are_exact) {
  const TensorRef tensor{nullptr, {std::int64_t{1} << 31, 5}, DType::kFloat64, DeviceKind::kHost};
  EXPECT_EQ(tensor.count(), std::size_t{5} << 31);
  EXPECT_EQ(tensor.bytes(), std::size_t{5} << 34);
}

TEST(TensorRef, a_description_names_dtype_and_shape) {
  EXPECT_EQ(describe(DType::kFloat16, Shape{512, 3}), "float16[512,3]");
  EXPECT_EQ(describe(DType::kInt64, Shape{}), "int64[]");
}

}  // namespace
}  // namespace hora
