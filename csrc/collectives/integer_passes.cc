// Vector passes over integers and bool, one function for each instruction set.

#include <cstdint>

#include "base/error.h"
#include "collectives/pass.h"

// clang-format off: this order is Highway's
#include "collectives/vector_targets.h"
#define HWY_TARGET_INCLUDE "collectives/integer_passes.cc"
#include <hwy/foreach_target.h>
#include "collectives/pass-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hora {
namespace HWY_NAMESPACE {

template <typename T, class Op>
void reduce_type(const Pass& pass) {
  Loop<Plain<T>, Plain<T>, Op, false>(pass).run();
}

/// Sums and products wrap around, so those of signed numbers have the bits of unsigned ones.
template <class Op>
void reduce_wrapping(const Pass& pass, DType dtype) {
  switch (size_of(dtype)) {
    case 1:
      return reduce_type<std::uint8_t, Op>(pass);
    case 2:
      return reduce_type<std::uint16_t, Op>(pass);
    case 4:
      return reduce_type<std::uint32_t, Op>(pass);
    default:
      return reduce_type<std::uint64_t, Op>(pass);
  }
}

template <class Op>
void reduce_ordered(const Pass& pass, DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return reduce_type<std::uint8_t, Op>(pass);
    case DType::kInt8:
      return reduce_type<std::int8_t, Op>(pass);
    case DType::kInt16:
      return reduce_type<std::int16_t, Op>(pass);
    case DType::kInt32:
      return reduce_type<std::int32_t, Op>(pass);
    case DType::kInt64:
      return reduce_type<std::int64_t, Op>(pass);
    default:
      raise(ErrorKind::kSessionFailed, "{} is not reduced as an integer", name(dtype));
  }
}

void reduce_integer_vectors(const Pass& pass, DType dtype, ReduceOp op) {
  const bool is_bool = dtype == DType::kBool;
  switch (op) {
    case ReduceOp::kAverage:
    case ReduceOp::kSum:
      return is_bool ? reduce_type<std::uint8_t, Or>(pass) : reduce_wrapping<Sum>(pass, dtype);
    case ReduceOp::kMin:
      return is_bool ? reduce_type<std::uint8_t, And>(pass) : reduce_ordered<Min>(pass, dtype);
    case ReduceOp::kMax:
      return is_bool ? reduce_type<std::uint8_t, Or>(pass) : reduce_ordered<Max>(pass, dtype);
    case ReduceOp::kProduct:
      return is_bool ? reduce_type<std::uint8_t, And>(pass) : reduce_wrapping<Product>(pass, dtype);
    case ReduceOp::kAdasum:
      break;
  }
  raise(ErrorKind::kSessionFailed, "no reduction kernel for op {}", static_cast<int>(op));
}

}  // namespace HWY_NAMESPACE
}  // namespace hora
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hora {

HWY_EXPORT(reduce_integer_vectors);

void reduce_integers(const Pass& pass, DType dtype, ReduceOp op) {
  HWY_DYNAMIC_DISPATCH(reduce_integer_vectors)(pass, dtype, op);
}

}  // namespace hora
#endif
