// Every kernel on every instruction set of this machine, compared bit for bit with the scalar code below.

#include "collectives/kernels.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/half.h"
#include "collectives/convert.h"
#include "support/calls.h"

namespace hora::testing {
namespace {

// --- the scalar reference

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

template <typename T>
using Accumulated = std::conditional_t<kIsHalf<T>, float, T>;

template <typename T>
Accumulated<T> wide(T value) {
  if constexpr (kIsHalf<T>) {
    return to_float(value);
  } else {
    return value;
  }
}

template <typename T>
T rounded(Accumulated<T> value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(value);
  } else {
    return value;
  }
}

template <typename T>
T scaled(T value, double factor) {
  if (factor == 1.0) return value;
  if constexpr (std::is_floating_point_v<T>) {
    return value * static_cast<T>(factor);
  } else {
    using Limits = std::numeric_limits<T>;
    const double product = static_cast<double>(value) * factor;
    return static_cast<T>(std::clamp<long double>(std::trunc(product), Limits::min(), Limits::max()));
  }
}

template <typename T>
T combined(ReduceOp op, T left, T right) {
  if constexpr (std::is_same_v<T, bool>) {
    return op == ReduceOp::kMin || op == ReduceOp::kProduct ? left && right : left || right;
  } else if (op == ReduceOp::kMin) {
    return left < right || left != left ? left : right;
  } else if (op == ReduceOp::kMax) {
    return left > right || left != left ? left : right;
  } else if constexpr (std::is_floating_point_v<T>) {
    return op == ReduceOp::kProduct ? left * right : left + right;
  } else {
    const auto a = static_cast<std::uint64_t>(left);
    const auto b = static_cast<std::uint64_t>(right);
    return static_cast<T>(op == ReduceOp::kProduct ? a * b : a + b);
  }
}

template <typename T>
T reduced(const std::vector<std::vector<T>>& sources, std::size_t number, std::size_t at,
          const Reduction& reduction) {
  Accumulated<T> sum = scaled(wide(sources[0][at]), reduction.before);
  for (std::size_t source = 1; source < number; ++source)
    sum = combined(reduction.op, sum, scaled(wide(sources[source][at]), reduction.before));
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    sum = static_cast<T>(static_cast<std::int64_t>(sum) / reduction.divisor);
  return rounded<T>(scaled(sum, reduction.after));
}

// --- values

template <typename T>
constexpr DType dtype_of_element() {
  if constexpr (std::is_same_v<T, bool>) {
    return DType::kBool;
  } else {
    return dtype_of<T>();
  }
}

template <typename T>
T random_value(std::mt19937_64& random) {
  if constexpr (kIsHalf<T>) {
    // Mostly numbers near 1; the rest is any pattern, so also NaN, infinity and subnormal numbers.
    if (random() % 8 == 0) return {static_cast<std::uint16_t>(random())};
    return rounded<T>(std::uniform_real_distribution<float>(-4, 4)(random));
  } else if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    using Limits = std::numeric_limits<T>;
    const T special[] = {T{0},
                         -T{0},
                         Limits::infinity(),
                         -Limits::infinity(),
                         Limits::quiet_NaN(),
                         Limits::denorm_min(),
                         Limits::max(),
                         std::bit_cast<T>(static_cast<Bits>(random()))};
    if (random() % 8 == 0) return special[random() % std::size(special)];
    return std::uniform_real_distribution<T>(-4, 4)(random);
  } else if constexpr (std::is_same_v<T, bool>) {
    return random() % 2 != 0;
  } else {
    return random() % 4 == 0 ? static_cast<T>(random() % 5) : static_cast<T>(random());
  }
}

template <typename T>
bool is_nan(T value) {
  const auto number = wide(value);
  return number != number;
}

/// Which NaN a sum or product of two is depends on the order in which the compiler passes them.
template <typename T>
bool same(ReduceOp op, T left, T right) {
  if (std::memcmp(&left, &right, sizeof(T)) == 0) return true;
  return op != ReduceOp::kMin && op != ReduceOp::kMax && is_nan(left) && is_nan(right);
}

template <typename T>
std::vector<Reduction> reductions() {
  std::vector<Reduction> all;
  for (const ReduceOp op :
       {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
    const DType dtype = dtype_of_element<T>();
    all.push_back({dtype, op});
    if constexpr (std::is_same_v<T, bool>) continue;
    all.push_back({dtype, op, 0.3, 1.7});
    if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
      all.push_back({dtype, op, 1.0 / 3});
      all.push_back({dtype, op, 1.0, 1.0 / 3});
    } else {
      all.push_back({dtype, op, 1.0, 1.0, 3});
    }
  }
  return all;
}

// --- every combination of lengths, alignments, stores and destinations

constexpr std::size_t kSourceCounts[] = {1, 2, 3, 4, 5, 7};
constexpr std::size_t kLengths[] = {0, 1, 3, 8, 15, 17, 33, 63, 64, 65, 129, 256, 257, 420};
constexpr std::size_t kLongest = 420;
constexpr std::size_t kOffsets[] = {0, 1, 5};
constexpr std::size_t kMargin = 64;

/// Memory for the longest tensor at any offset from a cache line, with a margin on both sides.
template <typename T>
class Memory {
 public:
  [[nodiscard]] T* at(std::size_t offset) { return values_ + kMargin + offset; }
  [[nodiscard]] std::byte* bytes(std::size_t offset) { return reinterpret_cast<std::byte*>(at(offset)); }
  void clear() { std::memset(static_cast<void*>(values_), 1, sizeof(values_)); }

  /// Whether nothing but `count` elements from `offset` on was written since `clear`.
  [[nodiscard]] bool is_clear_around(std::size_t offset, std::size_t count) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(values_);
    const auto is_one = [](std::uint8_t byte) { return byte == 1; };
    const auto* begin = reinterpret_cast<const std::uint8_t*>(at(offset));
    const auto* end = reinterpret_cast<const std::uint8_t*>(at(offset + count));
    return std::all_of(begin - kMargin, begin, is_one) && std::all_of(end, end + kMargin, is_one) &&
           first[0] == 1;
  }

 private:
  alignas(64) T values_[kMargin + kLongest + 8 + kMargin];
};

template <typename T>
class Comparison {
 public:
  Comparison() {
    std::mt19937_64 random(11);
    values_.resize(std::ranges::max(kSourceCounts));
    for (std::vector<T>& values : values_)
      for (std::size_t at = 0; at < kLongest; ++at) values.push_back(random_value<T>(random));
    memory_.resize(values_.size());
  }

  void run() {
    for (const std::size_t offset : kOffsets) {
      for (std::size_t source = 0; source < values_.size(); ++source)
        for (std::size_t at = 0; at < kLongest; ++at)
          memory_[source].at(shifted(offset, source))[at] = values_[source][at];
      for (const Reduction& reduction : reductions<T>())
        for (const std::size_t number : kSourceCounts)
          ASSERT_NO_FATAL_FAILURE(compare(reduction, number, offset));
    }
  }

 private:
  /// Sources lie differently.
  static std::size_t shifted(std::size_t offset, std::size_t source) { return (offset + source) % 6; }

  void compare(const Reduction& reduction, std::size_t number, std::size_t offset) {
    std::vector<T> expected;
    for (std::size_t at = 0; at < kLongest; ++at) expected.push_back(reduced(values_, number, at, reduction));
    std::vector<const std::byte*> sources;
    for (std::size_t source = 0; source < number; ++source)
      sources.push_back(memory_[source].bytes(shifted(offset, source)));
    for (const std::size_t count : kLengths) {
      for (const Store store : {Store::kCached, Store::kStreaming}) {
        first_.clear();
        second_.clear();
        std::vector<Destination> destinations{{first_.bytes(offset), store}};
        if (store == Store::kStreaming) destinations.push_back({second_.bytes(offset + 1), store});
        reduce_all(sources, destinations, count, reduction);
        const auto text = [&] {
          return ::testing::Message()
                 << name(reduction.dtype) << ' ' << name(reduction.op) << " of " << number << " sources, "
                 << count << " elements, offset " << offset << ", before " << reduction.before << ", after "
                 << reduction.after << (store == Store::kStreaming ? ", streaming" : ", cached");
        };
        for (std::size_t at = 0; at < count; ++at)
          ASSERT_TRUE(same<T>(reduction.op, first_.at(offset)[at], expected[at])) << text() << " at " << at;
        ASSERT_TRUE(first_.is_clear_around(offset, count)) << text();
        if (destinations.size() == 1) continue;
        ASSERT_EQ(std::memcmp(first_.at(offset), second_.at(offset + 1), count * sizeof(T)), 0) << text();
        ASSERT_TRUE(second_.is_clear_around(offset + 1, count)) << text();
      }
    }
  }

  std::vector<std::vector<T>> values_;
  std::vector<Memory<T>> memory_;
  Memory<T> first_;
  Memory<T> second_;
};

// --- the tests, once for each instruction set

constexpr bool kIsDispatched = (HWY_TARGETS & (HWY_TARGETS - 1)) != 0;

class Kernels : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    if constexpr (kIsDispatched) hwy::SetSupportedTargetsForTest(GetParam());
  }
  void TearDown() override {
    if constexpr (kIsDispatched) hwy::SetSupportedTargetsForTest(0);
  }
};

std::vector<std::int64_t> targets() {
  if constexpr (kIsDispatched) return hwy::SupportedAndGeneratedTargets();
  return {HWY_TARGETS};
}

INSTANTIATE_TEST_SUITE_P(On, Kernels, ::testing::ValuesIn(targets()),
                         [](const auto& target) { return hwy::TargetName(target.param); });

TEST_P(Kernels, reduce_floats_to_the_bits_of_scalar_code) {
  Comparison<float>().run();
  Comparison<double>().run();
}

TEST_P(Kernels, reduce_halves_to_the_bits_of_scalar_code) {
  Comparison<Float16>().run();
  Comparison<BFloat16>().run();
}

TEST_P(Kernels, reduce_integers_to_the_bits_of_scalar_code) {
  Comparison<std::uint8_t>().run();
  Comparison<std::int8_t>().run();
  Comparison<std::int16_t>().run();
  Comparison<std::int32_t>().run();
  Comparison<std::int64_t>().run();
}

TEST_P(Kernels, reduce_bools_logically) {
  Comparison<bool>().run();
}

TEST_P(Kernels, may_write_to_any_of_their_sources) {
  for (std::size_t place = 0; place < 3; ++place) {
    std::vector<std::vector<float>> values(3, std::vector<float>(300));
    for (std::size_t source = 0; source < 3; ++source)
      for (std::size_t at = 0; at < 300; ++at) values[source][at] = static_cast<float>(at * (source + 1));
    std::vector<const std::byte*> sources;
    for (const std::vector<float>& source : values)
      sources.push_back(reinterpret_cast<const std::byte*>(source.data()));
    const Destination destination{reinterpret_cast<std::byte*>(values[place].data())};
    reduce_all(sources, {&destination, 1}, 300, {DType::kFloat32, ReduceOp::kSum});
    for (std::size_t at = 0; at < 300; ++at) ASSERT_EQ(values[place][at], static_cast<float>(at * 6));
  }
}

TEST_P(Kernels, copy_any_number_of_bytes_from_anywhere_to_anywhere) {
  std::vector<std::uint8_t> source(2000);
  for (std::size_t at = 0; at < source.size(); ++at)
    source[at] = static_cast<std::uint8_t>(at * 37 + at / 256);
  for (const Store store : {Store::kCached, Store::kStreaming}) {
    for (const std::size_t count : {0, 1, 63, 64, 65, 127, 255, 256, 257, 1000, 1700}) {
      for (const std::size_t from : {0, 1, 32}) {
        for (const std::size_t to : {0, 3, 63, 64}) {
          std::vector<std::uint8_t> expected(2000, 0xa5);
          std::vector<std::uint8_t> copied = expected;
          std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(from), count,
                      expected.begin() + static_cast<std::ptrdiff_t>(to));
          copy(reinterpret_cast<const std::byte*>(source.data() + from),
               reinterpret_cast<std::byte*>(copied.data() + to), count, store);
          ASSERT_EQ(copied, expected) << count << " bytes from " << from << " to " << to;
        }
      }
    }
  }
}

template <typename Half>
void compare_every_half() {
  std::vector<Half> halves;
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) halves.push_back({static_cast<std::uint16_t>(bits)});
  std::vector<float> floats(halves.size());
  widen(halves.data(), dtype_of<Half>(), floats.data(), halves.size(), 1.0);
  volatile float one = 1;  // the product quiets a NaN
  for (std::size_t at = 0; at < halves.size(); ++at)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(floats[at]),
              std::bit_cast<std::uint32_t>(to_float(halves[at]) * one))
        << name(dtype_of<Half>()) << ' ' << at;
}

TEST_P(Kernels, widen_every_half_exactly) {
  compare_every_half<Float16>();
  compare_every_half<BFloat16>();
}

/// Every half, the point in the middle to the next, the float32 numbers beside both, and any others.
std::vector<float> floats_near_halves() {
  std::vector<std::uint32_t> patterns;
  for (std::uint32_t bits = 0; bits < 0xffff; ++bits) {
    const auto half = std::bit_cast<std::uint32_t>(to_float(Float16{static_cast<std::uint16_t>(bits)}));
    const auto next = std::bit_cast<std::uint32_t>(to_float(Float16{static_cast<std::uint16_t>(bits + 1)}));
    for (const std::uint32_t pattern : {half, half / 2 + next / 2, bits << 16, (bits << 16) + 0x8000u})
      for (const std::uint32_t beside : {pattern - 1, pattern, pattern + 1}) patterns.push_back(beside);
  }
  for (std::uint64_t pattern = 0; pattern <= 0xffffffffu; pattern += 65537)
    patterns.push_back(static_cast<std::uint32_t>(pattern));
  std::vector<float> floats;
  for (const std::uint32_t pattern : patterns) floats.push_back(std::bit_cast<float>(pattern));
  return floats;
}

template <typename Half>
void compare_rounding(const std::vector<float>& floats) {
  std::vector<Half> halves(floats.size());
  narrow(floats.data(), dtype_of<Half>(), halves.data(), floats.size(), 1.0);
  for (std::size_t at = 0; at < floats.size(); ++at)
    ASSERT_EQ(halves[at].bits, rounded<Half>(floats[at]).bits)
        << name(dtype_of<Half>()) << " of " << std::hex << std::bit_cast<std::uint32_t>(floats[at]);
}

TEST_P(Kernels, round_to_the_nearest_half) {
  const std::vector<float> floats = floats_near_halves();
  compare_rounding<Float16>(floats);
  compare_rounding<BFloat16>(floats);
}

TEST(Kernel, of_Adasum_does_not_exist) {
  std::vector<float> values(4);
  auto* const bytes = reinterpret_cast<std::byte*>(values.data());
  const std::byte* const source = bytes;
  const Destination destination{bytes};
  EXPECT_THROW(reduce_all({&source, 1}, {&destination, 1}, 4, {DType::kFloat32, ReduceOp::kAdasum}), Error);
}

}  // namespace
}  // namespace hora::testing
