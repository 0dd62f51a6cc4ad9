// The packing kernels of GPUs: they gather tensors into one buffer and scatter them again, converting and
// scaling on the way. What a block does is in pack_block.h. A kernel's name says what it takes and makes; the
// table in packing.h lists them all. Compiled by nvcc when hora is built and otherwise by NVRTC where it
// runs, so it includes nothing of the toolkit's.

#include "backends/cuda/pack_block.h"

namespace hora::cuda::pack {

struct Float16 {
  unsigned short bits;
};

/// A NaN becomes the processor's own.
template <>
struct Element<Float16> {
  using Wide = float;

  static HORA_DEVICE float widen(Float16 value) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
    return wide;
  }

  static HORA_DEVICE Float16 narrow(float value) {
    Float16 narrow;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(value));
    return narrow;
  }
};

template <typename Kernel, typename Arguments>
HORA_DEVICE void run(const Arguments& arguments) {
  Kernel::move(run_of<Kernel>(arguments, blockIdx.x), arguments.scale, arguments.divisor,
               static_cast<int>(threadIdx.x));
}

template <typename From, typename To = From>
using Floats = Elements<From, To, FloatMove<From, To>>;

template <typename From, typename To = From>
using Integers = Elements<From, To, IntegerMove<From, To>>;

using Bools = Elements<unsigned char, unsigned char, BoolMove>;

}  // namespace hora::cuda::pack

#define HORA_KERNEL extern "C" __global__ void __launch_bounds__(hora::cuda::kPackThreads)

// --- up to 127 pieces

using Small = hora::cuda::SmallPackArguments;
using namespace hora::cuda::pack;  // for the table of kernels below

HORA_KERNEL hora_copy(Small arguments) {
  run<Copy>(arguments);
}
HORA_KERNEL hora_fill(Small arguments) {
  run<Fill>(arguments);
}
HORA_KERNEL hora_pack_bool_uint8(Small arguments) {
  run<Bools>(arguments);
}
HORA_KERNEL hora_pack_uint8_uint8(Small arguments) {
  run<Integers<unsigned char>>(arguments);
}
HORA_KERNEL hora_pack_int8_int8(Small arguments) {
  run<Integers<signed char>>(arguments);
}
HORA_KERNEL hora_pack_int16_int16(Small arguments) {
  run<Integers<short>>(arguments);
}
HORA_KERNEL hora_pack_int32_int32(Small arguments) {
  run<Integers<int>>(arguments);
}
HORA_KERNEL hora_pack_int64_int64(Small arguments) {
  run<Integers<long long>>(arguments);
}
HORA_KERNEL hora_pack_int16_int32(Small arguments) {
  run<Integers<short, int>>(arguments);
}
HORA_KERNEL hora_pack_int32_int16(Small arguments) {
  run<Integers<int, short>>(arguments);
}
HORA_KERNEL hora_pack_float16_float16(Small arguments) {
  run<Floats<Float16>>(arguments);
}
HORA_KERNEL hora_pack_bfloat16_bfloat16(Small arguments) {
  run<Floats<BFloat16>>(arguments);
}
HORA_KERNEL hora_pack_float32_float32(Small arguments) {
  run<Floats<float>>(arguments);
}
HORA_KERNEL hora_pack_float64_float64(Small arguments) {
  run<Floats<double>>(arguments);
}
HORA_KERNEL hora_pack_float32_float16(Small arguments) {
  run<Floats<float, Float16>>(arguments);
}
HORA_KERNEL hora_pack_float16_float32(Small arguments) {
  run<Floats<Float16, float>>(arguments);
}
HORA_KERNEL hora_pack_float32_bfloat16(Small arguments) {
  run<Floats<float, BFloat16>>(arguments);
}
HORA_KERNEL hora_pack_bfloat16_float32(Small arguments) {
  run<Floats<BFloat16, float>>(arguments);
}
HORA_KERNEL hora_pack_float64_float16(Small arguments) {
  run<Floats<double, Float16>>(arguments);
}
HORA_KERNEL hora_pack_float16_float64(Small arguments) {
  run<Floats<Float16, double>>(arguments);
}
HORA_KERNEL hora_pack_float64_bfloat16(Small arguments) {
  run<Floats<double, BFloat16>>(arguments);
}
HORA_KERNEL hora_pack_bfloat16_float64(Small arguments) {
  run<Floats<BFloat16, double>>(arguments);
}

// --- up to 1022 pieces, where the compiler knows parameters of that size; for NVRTC a definition says
// whether
// --- the driver does

#ifndef HORA_LARGE_ARGUMENTS
#define HORA_LARGE_ARGUMENTS (__CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1201)
#endif

#if HORA_LARGE_ARGUMENTS
using Large = hora::cuda::LargePackArguments;

HORA_KERNEL hora_copy_large(Large arguments) {
  run<Copy>(arguments);
}
HORA_KERNEL hora_fill_large(Large arguments) {
  run<Fill>(arguments);
}
HORA_KERNEL hora_pack_bool_uint8_large(Large arguments) {
  run<Bools>(arguments);
}
HORA_KERNEL hora_pack_uint8_uint8_large(Large arguments) {
  run<Integers<unsigned char>>(arguments);
}
HORA_KERNEL hora_pack_int8_int8_large(Large arguments) {
  run<Integers<signed char>>(arguments);
}
HORA_KERNEL hora_pack_int16_int16_large(Large arguments) {
  run<Integers<short>>(arguments);
}
HORA_KERNEL hora_pack_int32_int32_large(Large arguments) {
  run<Integers<int>>(arguments);
}
HORA_KERNEL hora_pack_int64_int64_large(Large arguments) {
  run<Integers<long long>>(arguments);
}
HORA_KERNEL hora_pack_int16_int32_large(Large arguments) {
  run<Integers<short, int>>(arguments);
}
HORA_KERNEL hora_pack_int32_int16_large(Large arguments) {
  run<Integers<int, short>>(arguments);
}
HORA_KERNEL hora_pack_float16_float16_large(Large arguments) {
  run<Floats<Float16>>(arguments);
}
HORA_KERNEL hora_pack_bfloat16_bfloat16_large(Large arguments) {
  run<Floats<BFloat16>>(arguments);
}
HORA_KERNEL hora_pack_float32_float32_large(Large arguments) {
  run<Floats<float>>(arguments);
}
HORA_KERNEL hora_pack_float64_float64_large(Large arguments) {
  run<Floats<double>>(arguments);
}
HORA_KERNEL hora_pack_float32_float16_large(Large arguments) {
  run<Floats<float, Float16>>(arguments);
}
HORA_KERNEL hora_pack_float16_float32_large(Large arguments) {
  run<Floats<Float16, float>>(arguments);
}
HORA_KERNEL hora_pack_float32_bfloat16_large(Large arguments) {
  run<Floats<float, BFloat16>>(arguments);
}
HORA_KERNEL hora_pack_bfloat16_float32_large(Large arguments) {
  run<Floats<BFloat16, float>>(arguments);
}
HORA_KERNEL hora_pack_float64_float16_large(Large arguments) {
  run<Floats<double, Float16>>(arguments);
}
HORA_KERNEL hora_pack_float16_float64_large(Large arguments) {
  run<Floats<Float16, double>>(arguments);
}
HORA_KERNEL hora_pack_float64_bfloat16_large(Large arguments) {
  run<Floats<double, BFloat16>>(arguments);
}
HORA_KERNEL hora_pack_bfloat16_float64_large(Large arguments) {
  run<Floats<BFloat16, double>>(arguments);
}
#endif
