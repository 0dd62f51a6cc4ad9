#include "collectives/reduce.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/error.h"

namespace hora {
namespace {

/// Unsigned arithmetic of at least int's width: wrapping without undefined behaviour.
template <typename T>
using Wrapping = std::make_unsigned_t<std::common_type_t<T, int>>;

struct Sum {
  template <typename T>
  static constexpr T identity() {
    return T{0};
  }
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
  static constexpr T identity() {
    return T{1};
  }
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
  static constexpr T identity() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::max();
  }
  template <typename T>
  static T apply(T left, T right) {
    return (left < right) | (left != left) ? left : right;
  }
};

struct Max {
  template <typename T>
  static constexpr T identity() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::lowest();
  }
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

/// Calls `body` with a value of the C++ type of an accumulation type.
template <typename Body>
void with_type(DType dtype, Body body) {
  switch (dtype) {
    case DType::kBool:
      return body(bool{});
    case DType::kUInt8:
      return body(std::uint8_t{});
    case DType::kInt8:
      return body(std::int8_t{});
    case DType::kInt16:
      return body(std::int16_t{});
    case DType::kInt32:
      return body(std::int32_t{});
    case DType::kInt64:
      return body(std::int64_t{});
    case DType::kFloat32:
      return body(float{});
    case DType::kFloat64:
      return body(double{});
    case DType::kFloat16:
    case DType::kBFloat16:
      break;
  }
  raise(ErrorKind::kSessionFailed, "no reduction kernel for {}", name(dtype));
}

/// Calls `body` with the operation.
template <typename Body>
void with_op(ReduceOp op, Body body) {
  switch (op) {
    case ReduceOp::kAverage:
    case ReduceOp::kSum:
      return body(Sum{});
    case ReduceOp::kMin:
      return body(Min{});
    case ReduceOp::kMax:
      return body(Max{});
    case ReduceOp::kProduct:
      return body(Product{});
    case ReduceOp::kAdasum:
      break;
  }
  raise(ErrorKind::kSessionFailed, "no reduction kernel for op {}", static_cast<int>(op));
}

}  // namespace

void reduce_into(void* accumulator, const void* operand, std::size_t count, DType dtype, ReduceOp op) {
  with_op(op, [&]<typename Op>(Op) {
    with_type(dtype, [&]<typename T>(T) { reduce_as<Op, T>(accumulator, operand, count); });
  });
}

void fill_identity(void* destination, std::size_t count, DType dtype, ReduceOp op) {
  with_op(op == ReduceOp::kAdasum ? ReduceOp::kSum : op, [&]<typename Op>(Op) {
    with_type(dtype, [&]<typename T>(T) {
      std::fill_n(static_cast<T*>(destination), count, Op::template identity<T>());
    });
  });
}

}  // namespace hora
