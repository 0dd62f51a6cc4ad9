#include "collectives/convert.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/half.h"
#include "support/calls.h"
#include "support/tensor.h"

namespace hora::testing {
namespace {

using ::testing::ElementsAre;

template <typename T>
std::vector<T> scaled(const std::vector<T>& values, double factor) {
  std::vector<T> result(values.size());
  widen(values.data(), dtype_of<T>(), result.data(), values.size(), factor);
  std::vector<T> back(values.size());
  narrow(values.data(), dtype_of<T>(), back.data(), values.size(), factor);
  EXPECT_EQ(result, back) << "widen and narrow scale differently";
  return result;
}

TEST(Convert, a_factor_of_1_copies_every_bit) {
  for (const DType dtype : kAllDTypes) {
    if (is_half(dtype)) continue;
    Bytes source(24 * size_of(dtype));
    for (std::size_t at = 0; at < source.size(); ++at)
      source[at] = static_cast<std::byte>(dtype == DType::kBool ? at % 2 : at * 37);
    Bytes copy(source.size());
    widen(source.data(), dtype, copy.data(), 24, 1.0);
    EXPECT_EQ(copy, source) << name(dtype);
    narrow(source.data(), dtype, copy.data(), 24, 1.0);
    EXPECT_EQ(copy, source) << name(dtype);
  }
}

TEST(Convert, source_and_destination_may_be_the_same) {
  std::vector<float> values{1, 2, 3};
  widen(values.data(), DType::kFloat32, values.data(), 3, 1.0);
  EXPECT_THAT(values, ElementsAre(1, 2, 3));
  widen(values.data(), DType::kFloat32, values.data(), 3, 2.0);
  EXPECT_THAT(values, ElementsAre(2, 4, 6));
}

TEST(Convert, nothing_is_read_or_written_for_no_elements) {
  for (const DType dtype : kAllDTypes) {
    for (const double factor : {1.0, 2.0}) {
      if (dtype == DType::kBool && factor != 1.0) continue;
      widen(nullptr, dtype, nullptr, 0, factor);
      narrow(nullptr, dtype, nullptr, 0, factor);
    }
  }
}

TEST(Convert, floats_are_multiplied_in_their_own_type) {
  EXPECT_THAT(scaled<float>({1, 3}, 0.1), ElementsAre(0.1f, 3 * 0.1f));
  EXPECT_THAT(scaled<double>({1, 3}, 0.1), ElementsAre(0.1, 3 * 0.1));
}

TEST(Convert, integers_are_multiplied_in_double_and_truncated_toward_zero) {
  EXPECT_THAT(scaled<std::int32_t>({7, -7, 1, -1, 0}, 0.5), ElementsAre(3, -3, 0, 0, 0));
  EXPECT_THAT(scaled<std::uint8_t>({200, 3}, 0.3), ElementsAre(60, 0));
  EXPECT_THAT(scaled<std::int64_t>({std::int64_t{1} << 52}, 2.0), ElementsAre(std::int64_t{1} << 53));
}

TEST(Convert, integers_that_no_longer_fit_become_the_nearest_that_do) {
  EXPECT_THAT(scaled<std::int8_t>({100, -100}, 2.0), ElementsAre(127, -128));
  EXPECT_THAT(scaled<std::uint8_t>({100, 100}, -1.0), ElementsAre(0, 0));
  using Limits = std::numeric_limits<std::int64_t>;
  EXPECT_THAT(scaled<std::int64_t>({Limits::max(), Limits::min()}, 3.0),
              ElementsAre(Limits::max(), Limits::min()));
  EXPECT_THAT(scaled<std::int32_t>({1, -1}, HUGE_VAL), ElementsAre(2147483647, -2147483648));
  EXPECT_THAT(scaled<std::int32_t>({0, 5}, std::nan("")), ElementsAre(0, 0));
}

template <typename Half>
class HalfConvert : public ::testing::Test {};

using Halves = ::testing::Types<Float16, BFloat16>;
TYPED_TEST_SUITE(HalfConvert, Halves);

template <typename Half>
Half half_of(float value) {
  if constexpr (std::is_same_v<Half, Float16>) {
    return to_float16(value);
  } else {
    return to_bfloat16(value);
  }
}

TYPED_TEST(HalfConvert, every_pattern_survives_the_way_to_float32_and_back) {
  std::vector<TypeParam> values;
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) values.push_back({static_cast<std::uint16_t>(bits)});
  std::vector<float> wide(values.size());
  std::vector<TypeParam> back(values.size());
  widen(values.data(), dtype_of<TypeParam>(), wide.data(), values.size(), 1.0);
  narrow(wide.data(), dtype_of<TypeParam>(), back.data(), values.size(), 1.0);
  for (std::size_t bits = 0; bits < values.size(); ++bits) {
    if (std::isnan(wide[bits])) {
      ASSERT_TRUE(std::isnan(to_float(back[bits]))) << bits;
    } else {
      ASSERT_EQ(back[bits].bits, bits);
    }
  }
}

TYPED_TEST(HalfConvert, products_are_formed_in_float32_and_rounded_once) {
  const std::vector<TypeParam> values{half_of<TypeParam>(3), half_of<TypeParam>(60000)};
  std::vector<float> wide(2);
  widen(values.data(), dtype_of<TypeParam>(), wide.data(), 2, 0.1);
  EXPECT_EQ(wide[0], 3 * 0.1f);
  widen(values.data(), dtype_of<TypeParam>(), wide.data(), 2, 8.0);
  EXPECT_EQ(wide[1], to_float(values[1]) * 8) << "no overflow before narrowing";
  std::vector<TypeParam> back(2);
  narrow(wide.data(), dtype_of<TypeParam>(), back.data(), 2, 0.125);
  EXPECT_EQ(back[1].bits, values[1].bits);
}

template <typename T>
std::vector<T> divided(std::vector<T> values, std::int64_t divisor) {
  divide(values.data(), dtype_of<T>(), values.size(), divisor);
  return values;
}

TEST(Convert, division_truncates_toward_zero) {
  EXPECT_THAT(divided<std::int32_t>({7, -7, 1, -1, 0, 6}, 2), ElementsAre(3, -3, 0, 0, 0, 3));
  EXPECT_THAT(divided<std::int8_t>({-128, 127}, 3), ElementsAre(-42, 42));
  EXPECT_THAT(divided<std::uint8_t>({255, 2}, 3), ElementsAre(85, 0));
  EXPECT_THAT(divided<std::int64_t>({std::numeric_limits<std::int64_t>::min()}, 3),
              ElementsAre(-3074457345618258602));
}

TEST(Convert, only_integers_are_divided) {
  float value = 1;
  EXPECT_THROW(divide(&value, DType::kFloat32, 1, 2), Error);
  bool truth = true;
  EXPECT_THROW(divide(&truth, DType::kBool, 1, 2), Error);
}

}  // namespace
}  // namespace hora::testing
