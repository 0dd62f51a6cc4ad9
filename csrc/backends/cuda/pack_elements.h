#pragma once

// What packing does to one element; the meaning is that of collectives/convert.h and collectives/kernels.h,
// step by step. Compiled by nvcc, NVRTC and the compiler of the host.

#include "backends/cuda/pack_arguments.h"

namespace hora::cuda::pack {

HORA_DEVICE unsigned bits_of(float value) {
#ifdef __CUDACC__
  return __float_as_uint(value);
#else
  unsigned bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
#endif
}

HORA_DEVICE float float_of(unsigned bits) {
#ifdef __CUDACC__
  return __uint_as_float(bits);
#else
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
#endif
}

/// How a type is computed with: as itself, unless specialised.
template <typename T>
struct Element {
  using Wide = T;
  static HORA_DEVICE T widen(T value) { return value; }
  static HORA_DEVICE T narrow(T value) { return value; }
};

/// The upper half of a float32.
struct BFloat16 {
  unsigned short bits;
};

template <>
struct Element<BFloat16> {
  using Wide = float;

  static HORA_DEVICE float widen(BFloat16 value) { return float_of(static_cast<unsigned>(value.bits) << 16); }

  /// Rounds half to even; a NaN stays one.
  static HORA_DEVICE BFloat16 narrow(float value) {
    const unsigned bits = bits_of(value);
    const unsigned rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    const unsigned result = value == value ? rounded : bits | 0x400000u;
    return {static_cast<unsigned short>(result >> 16)};
  }
};

template <typename T, typename U>
struct IsSame {
  static constexpr bool value = false;
};
template <typename T>
struct IsSame<T, T> {
  static constexpr bool value = true;
};

template <bool kFirst, typename First, typename Second>
struct Choice {
  using Type = First;
};
template <typename First, typename Second>
struct Choice<false, First, Second> {
  using Type = Second;
};

/// Floats: multiplied in float32, in float64 when either type is that, and rounded. From float64 to a half it
/// is rounded twice, by way of float32, as PyTorch does. A factor of 1 multiplies too: as on the host that
/// quiets a signalling NaN. What else a NaN's bits are is up to the processor.
template <typename From, typename To>
class FloatMove {
 public:
  static constexpr bool kHasDouble = IsSame<From, double>::value || IsSame<To, double>::value;
  using Factor = typename Choice<kHasDouble, double, float>::Type;

  HORA_DEVICE FloatMove(double scale, long long) : factor_(static_cast<Factor>(scale)) {}

  HORA_DEVICE To operator()(From value) const {
    const Factor scaled = static_cast<Factor>(Element<From>::widen(value)) * factor_;
    return Element<To>::narrow(static_cast<typename Element<To>::Wide>(scaled));
  }

 private:
  Factor factor_;
};

template <typename T>
struct Limits {
  static constexpr bool kIsSigned = static_cast<T>(-1) < static_cast<T>(0);
  static constexpr int kBits = static_cast<int>(8 * sizeof(T)) - (kIsSigned ? 1 : 0);
  static constexpr T kHighest = static_cast<T>(~0ull >> (64 - kBits));
  static constexpr T kLowest = static_cast<T>(kIsSigned ? -static_cast<long long>(kHighest) - 1 : 0);
};

/// Integers: divided, then multiplied in double, truncated toward zero and kept within the range. Of two
/// types the narrower is computed with, since the wider one only carries its wrapped sums.
template <typename From, typename To>
class IntegerMove {
 public:
  using Lane = typename Choice<(sizeof(From) < sizeof(To)), From, To>::Type;

  HORA_DEVICE IntegerMove(double scale, long long divisor) : scale_(scale), divisor_(divisor) {}

  HORA_DEVICE To operator()(From value) const {
    return static_cast<To>(moved(static_cast<Lane>(value), scale_, divisor_));
  }

 private:
  static HORA_DEVICE_CALL Lane moved(Lane lane, double scale, long long divisor) {
    if (divisor != 1) lane = divided(lane, divisor);
    if (scale != 1.0) lane = truncated(static_cast<double>(lane) * scale);
    return lane;
  }

  /// Division of 64 bits is several times slower than that of 32.
  static HORA_DEVICE Lane divided(Lane lane, long long divisor) {
    if (sizeof(Lane) < sizeof(long long) && divisor > 0 && divisor <= Limits<int>::kHighest)
      return static_cast<Lane>(static_cast<int>(lane) / static_cast<int>(divisor));
    return static_cast<Lane>(static_cast<long long>(lane) / divisor);
  }

  static HORA_DEVICE Lane truncated(double value) {
    if (value >= static_cast<double>(Limits<Lane>::kHighest)) return Limits<Lane>::kHighest;
    if (value <= static_cast<double>(Limits<Lane>::kLowest)) return Limits<Lane>::kLowest;
    return value == value ? static_cast<Lane>(value) : Lane{0};
  }

  double scale_;
  long long divisor_;
};

/// bool: whatever is not 0 becomes 1, so that Max is "or" and Min is "and".
struct BoolMove {
  HORA_DEVICE BoolMove(double, long long) {}
  HORA_DEVICE unsigned char operator()(unsigned char value) const { return value != 0 ? 1 : 0; }
};

}  // namespace hora::cuda::pack
