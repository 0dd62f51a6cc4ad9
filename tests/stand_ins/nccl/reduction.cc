#include "stand_ins/nccl/reduction.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "base/half.h"

namespace hora::fake_nccl {
namespace {

template <typename T>
constexpr bool is_half = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

/// Values of halves are computed on in float32 and rounded: with so many more digits the result is that of
/// arithmetic in the type.
template <typename T>
T rounded(double value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
T add(T a, T b) {
  if constexpr (is_half<T>) {
    return rounded<T>(to_float(a) + to_float(b));
  } else if constexpr (std::is_integral_v<T>) {
    using Wrapping = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Wrapping>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b)));
  } else {
    return a + b;
  }
}

template <typename T>
T multiply(T a, T b) {
  if constexpr (is_half<T>) {
    return rounded<T>(to_float(a) * to_float(b));
  } else if constexpr (std::is_integral_v<T>) {
    using Wrapping = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Wrapping>(static_cast<Wrapping>(a) * static_cast<Wrapping>(b)));
  } else {
    return a * b;
  }
}

/// A number wins against a NaN, as on the device.
template <typename T>
T larger(T a, T b) {
  if constexpr (is_half<T>) {
    return rounded<T>(std::fmax(to_float(a), to_float(b)));
  } else if constexpr (std::is_integral_v<T>) {
    return std::max(a, b);
  } else {
    return std::fmax(a, b);
  }
}

template <typename T>
T smaller(T a, T b) {
  if constexpr (is_half<T>) {
    return rounded<T>(std::fmin(to_float(a), to_float(b)));
  } else if constexpr (std::is_integral_v<T>) {
    return std::min(a, b);
  } else {
    return std::fmin(a, b);
  }
}

template <typename T>
T divided(T sum, std::size_t ranks) {
  using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
  return static_cast<T>(static_cast<Wide>(sum) / static_cast<Wide>(ranks));
}

using Sources = std::span<const std::byte* const>;

template <typename T, typename Prepare, typename Combine, typename Finish>
void reduce_each(Sources sources, std::byte* to, std::size_t count, Prepare prepare, Combine combine,
                 Finish finish) {
  const auto from = [&](std::size_t source) { return reinterpret_cast<const T*>(sources[source]); };
  auto* const out = reinterpret_cast<T*>(to);
  for (std::size_t at = 0; at < count; ++at) {
    T value = prepare(from(0)[at]);
    for (std::size_t source = 1; source < sources.size(); ++source)
      value = combine(value, prepare(from(source)[at]));
    out[at] = finish(value);
  }
}

template <typename T>
void reduce_as(nccl::RedOp op, Sources sources, std::byte* to, std::size_t count) {
  const auto same = [](T value) { return value; };
  const std::size_t ranks = sources.size();
  switch (op) {
    case nccl::RedOp::kSum:
      return reduce_each<T>(sources, to, count, same, add<T>, same);
    case nccl::RedOp::kProd:
      return reduce_each<T>(sources, to, count, same, multiply<T>, same);
    case nccl::RedOp::kMax:
      return reduce_each<T>(sources, to, count, same, larger<T>, same);
    case nccl::RedOp::kMin:
      return reduce_each<T>(sources, to, count, same, smaller<T>, same);
    case nccl::RedOp::kAvg:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    reduce_each<T>(sources, to, count, same, add<T>, [ranks](T sum) { return divided(sum, ranks); });
  } else {
    const T factor = rounded<T>(1.0 / static_cast<double>(ranks));
    reduce_each<T>(sources, to, count, [factor](T value) { return multiply(value, factor); }, add<T>, same);
  }
}

}  // namespace

void reduce(nccl::DataType type, nccl::RedOp op, Sources sources, std::byte* to, std::size_t count) {
  switch (type) {
    case nccl::DataType::kInt8:
      return reduce_as<std::int8_t>(op, sources, to, count);
    case nccl::DataType::kUInt8:
      return reduce_as<std::uint8_t>(op, sources, to, count);
    case nccl::DataType::kInt32:
      return reduce_as<std::int32_t>(op, sources, to, count);
    case nccl::DataType::kUInt32:
      return reduce_as<std::uint32_t>(op, sources, to, count);
    case nccl::DataType::kInt64:
      return reduce_as<std::int64_t>(op, sources, to, count);
    case nccl::DataType::kUInt64:
      return reduce_as<std::uint64_t>(op, sources, to, count);
    case nccl::DataType::kFloat16:
      return reduce_as<Float16>(op, sources, to, count);
    case nccl::DataType::kFloat32:
      return reduce_as<float>(op, sources, to, count);
    case nccl::DataType::kFloat64:
      return reduce_as<double>(op, sources, to, count);
    case nccl::DataType::kBFloat16:
      return reduce_as<BFloat16>(op, sources, to, count);
  }
}

}  // namespace hora::fake_nccl
