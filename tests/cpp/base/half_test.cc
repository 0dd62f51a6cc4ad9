#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace hora {
namespace {

/// A half format: 1 sign bit, the exponent, `mantissa_bits` of fraction.
struct Format {
  int mantissa_bits;
  int lowest_exponent;   ///< of a normal number
  int highest_exponent;  ///< of a finite number
};

constexpr Format kFloat16{10, -14, 15};
constexpr Format kBFloat16{7, -126, 127};

/// Rounds half to even to the format, slowly and in double, where every step is exact.
double rounded(double value, const Format& format) {
  if (std::isnan(value) || std::isinf(value) || value == 0) return value;
  const int exponent = std::max(std::ilogb(value), format.lowest_exponent);
  const double unit = std::ldexp(1.0, exponent - format.mantissa_bits);
  const double nearest = std::nearbyint(value / unit) * unit;
  const double highest = std::ldexp(2.0 - std::ldexp(1.0, -format.mantissa_bits), format.highest_exponent);
  return std::abs(nearest) > highest ? std::copysign(HUGE_VAL, value) : nearest;
}

template <typename Half>
Half narrowed(float value);
template <>
Float16 narrowed<Float16>(float value) {
  return to_float16(value);
}
template <>
BFloat16 narrowed<BFloat16>(float value) {
  return to_bfloat16(value);
}

template <typename Half>
void expect_rounded_like_reference(float value, const Format& format) {
  const float got = to_float(narrowed<Half>(value));
  const double expected = rounded(value, format);
  if (std::isnan(value)) {
    ASSERT_TRUE(std::isnan(got));
    return;
  }
  ASSERT_EQ(static_cast<double>(got), expected) << std::hexfloat << value;
  ASSERT_EQ(std::signbit(got), std::signbit(value)) << std::hexfloat << value;
}

/// The float32 values that decide about rounding: each half value, the ties between two and their neighbours.
template <typename Half>
std::vector<float> deciding_values() {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < 0x7fff; ++bits) {
    const float low = to_float(Half{static_cast<std::uint16_t>(bits)});
    const float high = to_float(Half{static_cast<std::uint16_t>(bits + 1)});
    if (!std::isfinite(low)) break;
    const float tie = std::isinf(high)
                          ? low + (low - to_float(Half{static_cast<std::uint16_t>(bits - 1)})) / 2
                          : low + (high - low) / 2;
    for (const float near : {low, tie}) {
      for (const float value : {std::nextafter(near, 0.0f), near, std::nextafter(near, HUGE_VALF)}) {
        values.push_back(value);
        values.push_back(-value);
      }
    }
  }
  return values;
}

template <typename Half>
void expect_every_pattern_round_trips() {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Half half{static_cast<std::uint16_t>(bits)};
    const float value = to_float(half);
    const Half back = narrowed<Half>(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(to_float(back))) << bits;
    } else {
      ASSERT_EQ(back.bits, half.bits) << bits;
    }
  }
}

TEST(Half, every_float16_pattern_round_trips) {
  expect_every_pattern_round_trips<Float16>();
}

TEST(Half, every_bfloat16_pattern_round_trips) {
  expect_every_pattern_round_trips<BFloat16>();
}

TEST(Half, every_float16_pattern_has_the_value_that_ieee_754_gives_it) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 0x1f);
    const double fraction = std::ldexp(static_cast<double>(bits & 0x3ff), -10);
    if (exponent == 31) continue;
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
    const double expected = (bits & 0x8000) != 0 ? -magnitude : magnitude;
    ASSERT_EQ(static_cast<double>(to_float(Float16{static_cast<std::uint16_t>(bits)})), expected) << bits;
  }
}

TEST(Half, float16_rounds_to_nearest_even_around_every_value_and_tie) {
  for (const float value : deciding_values<Float16>())
    expect_rounded_like_reference<Float16>(value, kFloat16);
}

TEST(Half, bfloat16_rounds_to_nearest_even_around_every_value_and_tie) {
  for (const float value : deciding_values<BFloat16>())
    expect_rounded_like_reference<BFloat16>(value, kBFloat16);
}

TEST(Half, random_floats_round_like_the_reference) {
  std::mt19937 random(1);
  for (int round = 0; round < 200000; ++round) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    expect_rounded_like_reference<Float16>(value, kFloat16);
    expect_rounded_like_reference<BFloat16>(value, kBFloat16);
  }
}

TEST(Half, a_value_beyond_the_range_becomes_infinity) {
  EXPECT_EQ(to_float(to_float16(65519.996f)), 65504.0f);
  EXPECT_EQ(to_float(to_float16(65520.0f)), HUGE_VALF);
  EXPECT_EQ(to_float(to_float16(-1e30f)), -HUGE_VALF);
  EXPECT_EQ(to_float(to_bfloat16(std::numeric_limits<float>::max())), HUGE_VALF);
}

TEST(Half, infinity_stays_infinity) {
  for (const float infinity : {HUGE_VALF, -HUGE_VALF}) {
    EXPECT_EQ(to_float(to_float16(infinity)), infinity);
    EXPECT_EQ(to_float(to_bfloat16(infinity)), infinity);
  }
}

TEST(Half, every_nan_stays_a_nan_of_its_sign) {
  for (std::uint32_t payload : {1u, 0x1fffu, 0x2000u, 0x400000u, 0x7fffffu}) {
    for (std::uint32_t sign : {0u, 0x80000000u}) {
      const auto nan = std::bit_cast<float>(sign | 0x7f800000u | payload);
      EXPECT_TRUE(std::isnan(to_float(to_float16(nan)))) << payload;
      EXPECT_TRUE(std::isnan(to_float(to_bfloat16(nan)))) << payload;
      EXPECT_EQ(to_float16(nan).bits >> 15, sign >> 31);
      EXPECT_EQ(to_bfloat16(nan).bits >> 15, sign >> 31);
    }
  }
}

}  // namespace
}  // namespace hora
