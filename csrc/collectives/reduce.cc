#include "collectives/reduce.h"

#include <cstdint>
#include <type_traits>

#include "base/error.h"

namespace hora {
namespace {

/// Unsigned arithmetic of at least int's width: wrapping without undefined behaviour.
template <typename T>
using Wrapping = std::make_unsigned_t<std::common_type_t<T, int>>;

struct Sum {
  template <typename T>
  static T apply(T left, T right) {
    if constexpr (std::is_same_v<T, bool>) {
      return left | right;
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(left) + static_cast<Wrapping<T>>(right));
    } else {
      return left + right;
    }
  }
};

struct Product {
  template <typename T>
  static T apply(T left, T right) {
    if constexpr (std::is_same_v<T, bool>) {
      return left & right;
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(left) * static_cast<Wrapping<T>>(right));
    } else {
      return left * right;
    }
  }
};

// A comparison with NaN is false, so `left != left` has to keep a NaN on the left; one on the right is taken
// because the comparison fails.
struct Min {
  template <typename T>
  static T apply(T left, T right) {
    return (left < right) | (left != left) ? left : right;
  }
};

struct Max {
  template <typename T>
  static T apply(T left, T right) {
    return (left > right) | (left != left) ? left : right;
  }
};

template <typename Op, typename T>
void reduce_as(void* accumulator, const void* operand, std::size_t count) {
  auto* __restrict left = static_cast<T*>(accumulator);
  const auto* __restrict right = static_cast<const T*>(operand);
  for (std::size_t at = 0; at < count; ++at) left[at] = Op::template apply<T>(left[at], right[at]);
}

template <typename Op>
void reduce_with(void* accumulator, const void* operand, std::size_t count, DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return reduce_as<Op, bool>(accumulator, operand, count);
    case DType::kUInt8:
      return reduce_as<Op, std::uint8_t>(accumulator, operand, count);
    case DType::kInt8:
      return reduce_as<Op, std::int8_t>(accumulator, operand, count);
    case DType::kInt16:
      return reduce_as<Op, std::int16_t>(accumulator, operand, count);
    case DType::kInt32:
      return reduce_as<Op, std::int32_t>(accumulator, operand, count);
    case DType::kInt64:
      return reduce_as<Op, std::int64_t>(accumulator, operand, count);
    case DType::kFloat32:
      return reduce_as<Op, float>(accumulator, operand, count);
    case DType::kFloat64:
      return reduce_as<Op, double>(accumulator, operand, count);
    case DType::kFloat16:
    case DType::kBFloat16:
      break;
  }
  raise(ErrorKind::kSessionFailed, "no reduction kernel for {}", name(dtype));
}

}  // namespace

void reduce_into(void* accumulator, const void* operand, std::size_t count, DType dtype, ReduceOp op) {
  switch (op) {
    case ReduceOp::kAverage:
    case ReduceOp::kSum:
      return reduce_with<Sum>(accumulator, operand, count, dtype);
    case ReduceOp::kMin:
      return reduce_with<Min>(accumulator, operand, count, dtype);
    case ReduceOp::kMax:
      return reduce_with<Max>(accumulator, operand, count, dtype);
    case ReduceOp::kProduct:
      return reduce_with<Product>(accumulator, operand, count, dtype);
    case ReduceOp::kAdasum:
      break;
  }
  raise(ErrorKind::kSessionFailed, "no reduction kernel for {}", name(op));
}

}  // namespace hora
