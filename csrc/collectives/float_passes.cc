// Vector passes over floating-point numbers, one function for each instruction set.

#include "base/error.h"
#include "collectives/pass.h"

// clang-format off: this order is Highway's
#include "collectives/vector_targets.h"
#define HWY_TARGET_INCLUDE "collectives/float_passes.cc"
#include <hwy/foreach_target.h>
#include "collectives/pass-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hora {
namespace HWY_NAMESPACE {

template <class Format, class Op>
void reduce_format(const Pass& pass) {
  if (pass.before == 1.0 && pass.after == 1.0) {
    Loop<Format, Format, Op, false>(pass).run();
  } else {
    Loop<Format, Format, Op, true>(pass).run();
  }
}

template <class Op>
void reduce_with(const Pass& pass, DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return reduce_format<Float16Format, Op>(pass);
    case DType::kBFloat16:
      return reduce_format<BFloat16Format, Op>(pass);
    case DType::kFloat32:
      return reduce_format<Plain<float>, Op>(pass);
    case DType::kFloat64:
      return reduce_format<Plain<double>, Op>(pass);
    default:
      raise(ErrorKind::kSessionFailed, "{} is not reduced as a float", name(dtype));
  }
}

void reduce_float_vectors(const Pass& pass, DType dtype, ReduceOp op) {
  switch (op) {
    case ReduceOp::kAverage:
    case ReduceOp::kSum:
      return reduce_with<Sum>(pass, dtype);
    case ReduceOp::kMin:
      return reduce_with<Min>(pass, dtype);
    case ReduceOp::kMax:
      return reduce_with<Max>(pass, dtype);
    case ReduceOp::kProduct:
      return reduce_with<Product>(pass, dtype);
    case ReduceOp::kAdasum:
      break;
  }
  raise(ErrorKind::kSessionFailed, "no reduction kernel for op {}", static_cast<int>(op));
}

/// Conversions always multiply, also by 1: that quiets a signalling NaN on processors that do not do it while
/// they convert.
template <class From, class To>
void convert_format(const Pass& pass) {
  Loop<From, To, Sum, true>(pass).run();
}

void convert_vectors(const Pass& pass, DType from, DType to) {
  if (from == DType::kFloat16 && to == DType::kFloat32)
    return convert_format<Float16Format, Plain<float>>(pass);
  if (from == DType::kBFloat16 && to == DType::kFloat32)
    return convert_format<BFloat16Format, Plain<float>>(pass);
  if (from == DType::kFloat32 && to == DType::kFloat16)
    return convert_format<Plain<float>, Float16Format>(pass);
  if (from == DType::kFloat32 && to == DType::kBFloat16)
    return convert_format<Plain<float>, BFloat16Format>(pass);
  if (from == DType::kFloat32 && to == DType::kFloat32)
    return convert_format<Plain<float>, Plain<float>>(pass);
  if (from == DType::kFloat64 && to == DType::kFloat64)
    return convert_format<Plain<double>, Plain<double>>(pass);
  raise(ErrorKind::kSessionFailed, "no conversion from {} to {}", name(from), name(to));
}

}  // namespace HWY_NAMESPACE
}  // namespace hora
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hora {

HWY_EXPORT(reduce_float_vectors);
HWY_EXPORT(convert_vectors);

void reduce_floats(const Pass& pass, DType dtype, ReduceOp op) {
  HWY_DYNAMIC_DISPATCH(reduce_float_vectors)(pass, dtype, op);
}

void convert_floats(const Pass& pass, DType from, DType to) {
  HWY_DYNAMIC_DISPATCH(convert_vectors)(pass, from, to);
}

}  // namespace hora
#endif
