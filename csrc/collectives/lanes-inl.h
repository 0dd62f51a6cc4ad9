// Elements in vector registers: how each type is loaded, combined, rounded and packed. Compiled once for each
// instruction set by Highway's foreach_target, hence the guard that is open every other time.
//
// The bits of every result are those of scalar code: multiplications and additions stay apart, halves are
// rounded as in base/half.h, and Min and Max choose as in `Min` and `Max` below.

#if defined(HORA_COLLECTIVES_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HORA_COLLECTIVES_LANES_INL_H
#undef HORA_COLLECTIVES_LANES_INL_H
#else
#define HORA_COLLECTIVES_LANES_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace hora {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The tag of vectors of `T` with as many lanes as those of `D`.
template <typename T, class D>
using Like = hn::Rebind<T, D>;

// --- formats: `Lane` is computed with, `Stored` lies in memory

template <typename T>
struct Plain {
  using Lane = T;
  using Stored = T;

  template <class D>
  static HWY_INLINE hn::Vec<D> unpack(D, hn::Vec<D> stored) {
    return stored;
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> pack(D, hn::Vec<D> lanes) {
    return lanes;
  }
};

struct BFloat16Format {
  using Lane = float;
  using Stored = std::uint16_t;

  template <class D>
  static HWY_INLINE hn::Vec<D> unpack(D d, hn::Vec<Like<Stored, D>> stored) {
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(Like<std::int32_t, D>(), stored)));
  }

  /// Rounds half to even; a NaN stays one.
  template <class D>
  static HWY_INLINE hn::Vec<Like<Stored, D>> pack(D, hn::Vec<D> lanes) {
    const Like<std::uint32_t, D> du;
    const auto bits = hn::BitCast(du, lanes);
    const auto upper = hn::ShiftRight<16>(bits);
    const auto half = hn::Add(hn::Set(du, 0x7fffu), hn::And(upper, hn::Set(du, 1u)));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, half));
    const auto quiet = hn::Or(upper, hn::Set(du, 0x40u));
    const auto result = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(lanes)), quiet, rounded);
    return hn::DemoteTo(Like<Stored, D>(), hn::BitCast(Like<std::int32_t, D>(), result));
  }
};

struct Float16Format {
  using Lane = float;
  using Stored = std::uint16_t;

  /// Where the instruction set converts, it rounds half to even; Highway's own code elsewhere truncates.
  static constexpr bool kIsNative = HWY_ARCH_ARM_A64 || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2);

  template <class D>
  static HWY_INLINE hn::Vec<D> unpack(D d, hn::Vec<Like<Stored, D>> stored) {
    if constexpr (kIsNative) {
      return hn::PromoteTo(d, hn::BitCast(Like<hwy::float16_t, D>(), stored));
    } else {
      const Like<std::int32_t, D> di;
      const auto bits = hn::PromoteTo(di, stored);
      const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(di, 0x8000)));
      const auto magnitude = hn::And(bits, hn::Set(di, 0x7fff));
      const auto shifted = hn::ShiftLeft<13>(magnitude);
      const auto special = hn::Or(shifted, hn::Set(di, 0x7f800000));
      const auto normal = hn::Add(shifted, hn::Set(di, 0x38000000));
      // Zero and subnormals count units of 2^-24.
      const auto tiny = hn::BitCast(di, hn::Mul(hn::ConvertTo(d, magnitude), hn::Set(d, 0x1p-24f)));
      const auto finite = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x3ff)), normal, tiny);
      const auto value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7bff)), special, finite);
      return hn::BitCast(d, hn::Or(sign, value));
    }
  }

  template <class D>
  static HWY_INLINE hn::Vec<Like<Stored, D>> pack(D d, hn::Vec<D> lanes) {
    const Like<Stored, D> stored;
    if constexpr (kIsNative) {
      return hn::BitCast(stored, hn::DemoteTo(Like<hwy::float16_t, D>(), lanes));
    } else {
      const Like<std::int32_t, D> di;
      const auto bits = hn::BitCast(di, lanes);
      const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(di, 0x8000));
      const auto magnitude = hn::And(bits, hn::Set(di, 0x7fffffff));
      const auto payload = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 0x3ff));
      const auto nan = hn::Or(payload, hn::Set(di, 0x7e00));
      // Rounding may carry into infinity.
      const auto rebased = hn::Sub(magnitude, hn::Set(di, 0x38000000));
      const auto odd = hn::And(hn::ShiftRight<13>(rebased), hn::Set(di, 1));
      const auto normal = hn::ShiftRight<13>(hn::Add(rebased, hn::Add(odd, hn::Set(di, 0xfff))));
      // Adding 0.5 leaves the value, rounded to units of 2^-24, in the low bits of the sum.
      const auto sum = hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f)));
      const auto tiny = hn::Sub(sum, hn::Set(di, 0x3f000000));
      const auto small = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x387fffff)), normal, tiny);
      const auto infinite = hn::Gt(magnitude, hn::Set(di, 0x477fffff));
      const auto number = hn::IfThenElse(infinite, hn::Set(di, 0x7c00), small);
      const auto value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7f800000)), nan, number);
      return hn::DemoteTo(stored, hn::Or(sign, value));
    }
  }
};

// --- operations

struct Sum {
  template <class V>
  static HWY_INLINE V combine(V left, V right) {
    return hn::Add(left, right);
  }
};

/// No instruction set multiplies bytes: those with even and with odd numbers are multiplied as 16-bit
/// numbers, whose lower halves are the products.
template <class V>
HWY_INLINE V product_of_bytes(V left, V right) {
  const hn::DFromV<V> d;
  if constexpr (hn::MaxLanes(hn::DFromV<V>()) == 1) {
    return hn::Set(d, static_cast<hn::TFromV<V>>(hn::GetLane(left) * hn::GetLane(right)));
  } else {
    const hn::RepartitionToWide<decltype(d)> pairs;
    const auto lefts = hn::BitCast(pairs, left);
    const auto rights = hn::BitCast(pairs, right);
    const auto even = hn::And(hn::Mul(lefts, rights), hn::Set(pairs, 0xff));
    const auto odd = hn::Mul(hn::ShiftRight<8>(lefts), hn::ShiftRight<8>(rights));
    return hn::BitCast(d, hn::Or(even, hn::ShiftLeft<8>(odd)));
  }
}

struct Product {
  template <class V>
  static HWY_INLINE V combine(V left, V right) {
    if constexpr (sizeof(hn::TFromV<V>) == 1) {
      return product_of_bytes(left, right);
    } else {
      return hn::Mul(left, right);
    }
  }
};

// Highway's Min and Max leave open what happens to NaN and to zeros of both signs. Here a NaN on the left
// stays, one on the right is taken because the comparison fails, and so is the right one of two equal
// numbers.
struct Min {
  template <class V>
  static HWY_INLINE V combine(V left, V right) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
      return hn::IfThenElse(hn::Or(hn::Lt(left, right), hn::IsNaN(left)), left, right);
    } else {
      return hn::Min(left, right);
    }
  }
};

struct Max {
  template <class V>
  static HWY_INLINE V combine(V left, V right) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
      return hn::IfThenElse(hn::Or(hn::Gt(left, right), hn::IsNaN(left)), left, right);
    } else {
      return hn::Max(left, right);
    }
  }
};

struct Or {
  template <class V>
  static HWY_INLINE V combine(V left, V right) {
    return hn::Or(left, right);
  }
};

struct And {
  template <class V>
  static HWY_INLINE V combine(V left, V right) {
    return hn::And(left, right);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace hora
HWY_AFTER_NAMESPACE();

#endif  // guard of one target
