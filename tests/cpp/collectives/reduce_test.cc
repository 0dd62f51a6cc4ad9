#include "collectives/reduce.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"
#include "support/calls.h"

namespace hora::testing {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::kAverage, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kProduct};

template <typename T>
T random_value(std::mt19937_64& random) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::uniform_real_distribution<T>(-1000, 1000)(random);
  } else {
    return static_cast<T>(random());
  }
}

template <typename T>
T expected(ReduceOp op, T left, T right) {
  if (op == ReduceOp::kMin) return std::min(left, right);
  if (op == ReduceOp::kMax) return std::max(left, right);
  if constexpr (std::is_floating_point_v<T>) {
    return op == ReduceOp::kProduct ? left * right : left + right;
  } else {
    const auto a = static_cast<std::uint64_t>(left);
    const auto b = static_cast<std::uint64_t>(right);
    return static_cast<T>(op == ReduceOp::kProduct ? a * b : a + b);
  }
}

template <typename T>
class ReduceKernel : public ::testing::Test {};

using Types =
    ::testing::Types<std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t, float, double>;
TYPED_TEST_SUITE(ReduceKernel, Types);

TYPED_TEST(ReduceKernel, equals_the_serial_reference_for_every_op_and_length) {
  std::mt19937_64 random(5);
  for (const ReduceOp op : kOps) {
    for (const std::size_t count : {0, 1, 2, 3, 7, 8, 15, 16, 31, 33, 63, 64, 65, 1000}) {
      std::vector<TypeParam> left(count);
      std::vector<TypeParam> right(count);
      for (TypeParam& value : left) value = random_value<TypeParam>(random);
      for (TypeParam& value : right) value = random_value<TypeParam>(random);
      std::vector<TypeParam> result = left;
      reduce_into(result.data(), right.data(), count, dtype_of<TypeParam>(), op);
      for (std::size_t at = 0; at < count; ++at)
        ASSERT_EQ(result[at], expected(op, left[at], right[at]))
            << name(op) << " at " << at << " of " << count;
    }
  }
}

TYPED_TEST(ReduceKernel, touches_nothing_beyond_its_count) {
  for (const ReduceOp op : kOps) {
    std::vector<TypeParam> values(70, TypeParam{3});
    const std::vector<TypeParam> operand(70, TypeParam{2});
    reduce_into(values.data() + 1, operand.data() + 1, 67, dtype_of<TypeParam>(), op);
    EXPECT_EQ(values.front(), TypeParam{3});
    EXPECT_EQ(values[68], TypeParam{3});
  }
}

TYPED_TEST(ReduceKernel, the_identity_changes_nothing_whichever_side_it_stands_on) {
  using Limits = std::numeric_limits<TypeParam>;
  const std::vector<TypeParam> values{0, 1, 2, Limits::max(), Limits::lowest(), static_cast<TypeParam>(-3)};
  for (const ReduceOp op : kOps) {
    std::vector<TypeParam> identity(values.size());
    fill_identity(identity.data(), identity.size(), dtype_of<TypeParam>(), op);
    std::vector<TypeParam> left = values;
    reduce_into(left.data(), identity.data(), values.size(), dtype_of<TypeParam>(), op);
    EXPECT_EQ(left, values) << name(op);
    reduce_into(identity.data(), values.data(), values.size(), dtype_of<TypeParam>(), op);
    EXPECT_EQ(identity, values) << name(op);
  }
}

TYPED_TEST(ReduceKernel, an_identity_fills_its_count_and_no_more) {
  for (const ReduceOp op : kOps) {
    for (const std::size_t count : {0, 1, 3, 67}) {
      std::vector<TypeParam> values(70, TypeParam{5});
      fill_identity(values.data() + 1, count, dtype_of<TypeParam>(), op);
      EXPECT_EQ(values.front(), TypeParam{5});
      for (std::size_t at = 1; at < values.size(); ++at)
        ASSERT_EQ(values[at] == TypeParam{5}, at > count) << name(op) << " at " << at << " of " << count;
    }
  }
}

template <typename T>
class IntegerKernel : public ::testing::Test {};

using Integers = ::testing::Types<std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(IntegerKernel, Integers);

TYPED_TEST(IntegerKernel, sums_and_products_wrap_around) {
  using Limits = std::numeric_limits<TypeParam>;
  std::vector<TypeParam> sum{Limits::max(), Limits::min()};
  reduce_into(sum.data(), std::vector<TypeParam>{1, Limits::min()}.data(), 2, dtype_of<TypeParam>(),
              ReduceOp::kSum);
  EXPECT_EQ(sum, (std::vector<TypeParam>{Limits::min(), 0}));
  std::vector<TypeParam> product{Limits::max(), Limits::min()};
  reduce_into(product.data(), std::vector<TypeParam>{Limits::max(), Limits::min()}.data(), 2,
              dtype_of<TypeParam>(), ReduceOp::kProduct);
  EXPECT_EQ(product, (std::vector<TypeParam>{1, 0}));
}

template <typename T>
class FloatKernel : public ::testing::Test {};

using Floats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(FloatKernel, Floats);

TYPED_TEST(FloatKernel, nan_on_either_side_gives_nan_for_every_op) {
  const TypeParam nan = std::numeric_limits<TypeParam>::quiet_NaN();
  for (const ReduceOp op : kOps) {
    // Long enough for a vectorised loop.
    std::vector<TypeParam> left(40, TypeParam{1});
    std::vector<TypeParam> right(40, TypeParam{2});
    for (std::size_t at = 0; at < 40; ++at) {
      if (at % 3 == 0) left[at] = nan;
      if (at % 3 == 1) right[at] = nan;
    }
    reduce_into(left.data(), right.data(), 40, dtype_of<TypeParam>(), op);
    for (std::size_t at = 0; at < 40; ++at)
      EXPECT_EQ(std::isnan(left[at]), at % 3 != 2) << name(op) << " at " << at;
  }
}

TYPED_TEST(FloatKernel, infinities_are_ordinary_numbers_for_min_and_max) {
  const TypeParam infinity = std::numeric_limits<TypeParam>::infinity();
  std::vector<TypeParam> values{infinity, -infinity, 1};
  const std::vector<TypeParam> operand{1, 1, infinity};
  reduce_into(values.data(), operand.data(), 3, dtype_of<TypeParam>(), ReduceOp::kMin);
  EXPECT_EQ(values, (std::vector<TypeParam>{1, -infinity, 1}));
  reduce_into(values.data(), std::vector<TypeParam>{infinity, 1, -infinity}.data(), 3, dtype_of<TypeParam>(),
              ReduceOp::kMax);
  EXPECT_EQ(values, (std::vector<TypeParam>{infinity, 1, 1}));
}

TYPED_TEST(FloatKernel, the_identity_leaves_infinities_and_nan_alone) {
  const TypeParam infinity = std::numeric_limits<TypeParam>::infinity();
  for (const ReduceOp op : kOps) {
    std::vector<TypeParam> values{infinity, -infinity, std::numeric_limits<TypeParam>::quiet_NaN()};
    std::vector<TypeParam> identity(3);
    fill_identity(identity.data(), 3, dtype_of<TypeParam>(), op);
    reduce_into(values.data(), identity.data(), 3, dtype_of<TypeParam>(), op);
    EXPECT_EQ(values[0], infinity) << name(op);
    EXPECT_EQ(values[1], -infinity) << name(op);
    EXPECT_TRUE(std::isnan(values[2])) << name(op);
  }
}

TEST(BoolKernel, the_identity_changes_nothing) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProduct}) {
    bool values[] = {false, true};
    bool identity[2];
    fill_identity(identity, 2, DType::kBool, op);
    reduce_into(values, identity, 2, DType::kBool, op);
    EXPECT_FALSE(values[0]) << name(op);
    EXPECT_TRUE(values[1]) << name(op);
  }
}

TEST(BoolKernel, sum_and_max_are_or_product_and_min_are_and) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProduct}) {
    const bool is_or = op == ReduceOp::kSum || op == ReduceOp::kMax;
    bool values[] = {false, false, true, true};
    const bool operand[] = {false, true, false, true};
    reduce_into(values, operand, 4, DType::kBool, op);
    EXPECT_FALSE(values[0]) << name(op);
    EXPECT_EQ(values[1], is_or) << name(op);
    EXPECT_EQ(values[2], is_or) << name(op);
    EXPECT_TRUE(values[3]) << name(op);
  }
}

TEST(BoolKernel, results_are_stored_as_0_or_1) {
  std::vector<std::uint8_t> values(33, 1);
  const std::vector<std::uint8_t> operand(33, 1);
  reduce_into(values.data(), operand.data(), values.size(), DType::kBool, ReduceOp::kSum);
  EXPECT_EQ(values, operand);
}

TEST(HalfKernel, does_not_exist_because_halves_are_summed_as_float32) {
  std::vector<std::uint16_t> values(4);
  EXPECT_THROW(reduce_into(values.data(), values.data(), 4, DType::kFloat16, ReduceOp::kSum), Error);
  EXPECT_THROW(reduce_into(values.data(), values.data(), 4, DType::kBFloat16, ReduceOp::kMax), Error);
  EXPECT_THROW(fill_identity(values.data(), 4, DType::kFloat16, ReduceOp::kSum), Error);
}

TEST(AdasumKernel, does_not_exist_but_has_the_identity_0) {
  std::vector<float> values(4);
  EXPECT_THROW(reduce_into(values.data(), values.data(), 4, DType::kFloat32, ReduceOp::kAdasum), Error);
  values.assign(4, 7);
  fill_identity(values.data(), 4, DType::kFloat32, ReduceOp::kAdasum);
  EXPECT_EQ(values, std::vector<float>(4, 0.0f));
}

}  // namespace
}  // namespace hora::testing
