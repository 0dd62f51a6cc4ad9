#include "base/dtype.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(DType, only_halves_are_summed_in_another_type) {
  for (int value = 0; value < static_cast<int>(kDTypes.size()); ++value) {
    const auto dtype = static_cast<DType>(value);
    const bool half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
    EXPECT_EQ(accumulation_type(dtype), half ? DType::kFloat32 : dtype) << name(dtype);
  }
}

TEST(DType, names_and_sizes_belong_together) {
  EXPECT_EQ(name(DType::kBool), "bool");
  EXPECT_EQ(size_of(DType::kBool), 1u);
  EXPECT_EQ(name(DType::kBFloat16), "bfloat16");
  EXPECT_EQ(size_of(DType::kBFloat16), 2u);
  EXPECT_EQ(name(DType::kFloat64), "float64");
  EXPECT_EQ(size_of(DType::kFloat64), 8u);
}

}  // namespace
}  // namespace hora
