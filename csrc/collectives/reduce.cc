#include "collectives/reduce.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "base/error.h"
#include "collectives/kernels.h"

namespace hora {
namespace {

template <typename T>
T identity(ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case ReduceOp::kMin:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case ReduceOp::kMax:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case ReduceOp::kProduct:
      return T{1};
    case ReduceOp::kAverage:
    case ReduceOp::kSum:
    case ReduceOp::kAdasum:
      break;
  }
  return T{0};
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
  raise(ErrorKind::kSessionFailed, "{} is not an accumulation type", name(dtype));
}

}  // namespace

void reduce_into(void* accumulator, const void* operand, std::size_t count, DType dtype, ReduceOp op) {
  if (is_half(dtype)) raise(ErrorKind::kSessionFailed, "{} is not accumulated in its own type", name(dtype));
  auto* const sums = static_cast<std::byte*>(accumulator);
  const std::array<const std::byte*, 2> sources{sums, static_cast<const std::byte*>(operand)};
  const Destination destination{sums};
  reduce_all(sources, {&destination, 1}, count, {dtype, op});
}

void fill_identity(void* destination, std::size_t count, DType dtype, ReduceOp op) {
  with_type(dtype, [&]<typename T>(T) { std::fill_n(static_cast<T*>(destination), count, identity<T>(op)); });
}

}  // namespace hora
