#pragma once

// The packing kernels for a stand-in of CUDA's driver: the code that runs on GPUs, compiled for this machine.

#include <array>
#include <cstddef>
#include <span>

#include "backends/cuda/pack_block.h"
#include "base/half.h"

namespace hora::cuda::pack {

/// On a GPU there are instructions for it.
template <>
struct Element<hora::Float16> {
  using Wide = float;
  static float widen(hora::Float16 value) { return to_float(value); }
  static hora::Float16 narrow(float value) { return to_float16(value); }
};

}  // namespace hora::cuda::pack

namespace hora::stand_ins {

struct HostKernel {
  const char* name;
  std::size_t parameter_bytes;
  /// Runs a whole launch. `parameters` has the address of the only parameter.
  void (*function)(unsigned grid, unsigned block, void* const* parameters);
};

/// Finds what a device pointer points to, from which so many bytes are used.
using Translate = void* (*)(const void* device_pointer, std::size_t bytes);

template <Translate kTranslate, typename Kernel, typename Arguments>
void run_on_host(unsigned grid, unsigned block, void* const* parameters) {
  const auto& arguments = *static_cast<const Arguments*>(parameters[0]);
  for (unsigned index = 0; index < grid; ++index) {
    cuda::pack::Run run = cuda::pack::run_of<Kernel>(arguments, index);
    const auto count = static_cast<std::size_t>(run.count);
    if (Kernel::kFromBytes != 0) run.from = kTranslate(run.from, count * Kernel::kFromBytes);
    run.to = kTranslate(run.to, count * Kernel::kToBytes);
    for (unsigned thread = 0; thread < block; ++thread)
      Kernel::move(run, arguments.scale, arguments.divisor, static_cast<int>(thread));
  }
}

/// All of them, twice: for few and for many pieces.
template <Translate kTranslate>
struct HostKernels {
  using Copy = cuda::pack::Copy;
  using Fill = cuda::pack::Fill;
  using Bools = cuda::pack::Elements<unsigned char, unsigned char, cuda::pack::BoolMove>;
  using Float16 = hora::Float16;
  using BFloat16 = cuda::pack::BFloat16;

  template <typename From, typename To = From>
  using Floats = cuda::pack::Elements<From, To, cuda::pack::FloatMove<From, To>>;
  template <typename From, typename To = From>
  using Integers = cuda::pack::Elements<From, To, cuda::pack::IntegerMove<From, To>>;

  template <typename Kernel>
  static constexpr HostKernel small(const char* name) {
    using Arguments = cuda::SmallPackArguments;
    return {name, sizeof(Arguments), run_on_host<kTranslate, Kernel, Arguments>};
  }
  template <typename Kernel>
  static constexpr HostKernel large(const char* name) {
    using Arguments = cuda::LargePackArguments;
    return {name, sizeof(Arguments), run_on_host<kTranslate, Kernel, Arguments>};
  }

  static constexpr std::array kTable{
      small<cuda::pack::Copy>("hora_copy"),
      small<cuda::pack::Fill>("hora_fill"),
      small<Bools>("hora_pack_bool_uint8"),
      small<Integers<unsigned char>>("hora_pack_uint8_uint8"),
      small<Integers<signed char>>("hora_pack_int8_int8"),
      small<Integers<short>>("hora_pack_int16_int16"),
      small<Integers<int>>("hora_pack_int32_int32"),
      small<Integers<long long>>("hora_pack_int64_int64"),
      small<Integers<short, int>>("hora_pack_int16_int32"),
      small<Integers<int, short>>("hora_pack_int32_int16"),
      small<Floats<Float16>>("hora_pack_float16_float16"),
      small<Floats<BFloat16>>("hora_pack_bfloat16_bfloat16"),
      small<Floats<float>>("hora_pack_float32_float32"),
      small<Floats<double>>("hora_pack_float64_float64"),
      small<Floats<float, Float16>>("hora_pack_float32_float16"),
      small<Floats<Float16, float>>("hora_pack_float16_float32"),
      small<Floats<float, BFloat16>>("hora_pack_float32_bfloat16"),
      small<Floats<BFloat16, float>>("hora_pack_bfloat16_float32"),
      small<Floats<double, Float16>>("hora_pack_float64_float16"),
      small<Floats<Float16, double>>("hora_pack_float16_float64"),
      small<Floats<double, BFloat16>>("hora_pack_float64_bfloat16"),
      small<Floats<BFloat16, double>>("hora_pack_bfloat16_float64"),
      large<cuda::pack::Copy>("hora_copy_large"),
      large<cuda::pack::Fill>("hora_fill_large"),
      large<Bools>("hora_pack_bool_uint8_large"),
      large<Integers<unsigned char>>("hora_pack_uint8_uint8_large"),
      large<Integers<signed char>>("hora_pack_int8_int8_large"),
      large<Integers<short>>("hora_pack_int16_int16_large"),
      large<Integers<int>>("hora_pack_int32_int32_large"),
      large<Integers<long long>>("hora_pack_int64_int64_large"),
      large<Integers<short, int>>("hora_pack_int16_int32_large"),
      large<Integers<int, short>>("hora_pack_int32_int16_large"),
      large<Floats<Float16>>("hora_pack_float16_float16_large"),
      large<Floats<BFloat16>>("hora_pack_bfloat16_bfloat16_large"),
      large<Floats<float>>("hora_pack_float32_float32_large"),
      large<Floats<double>>("hora_pack_float64_float64_large"),
      large<Floats<float, Float16>>("hora_pack_float32_float16_large"),
      large<Floats<Float16, float>>("hora_pack_float16_float32_large"),
      large<Floats<float, BFloat16>>("hora_pack_float32_bfloat16_large"),
      large<Floats<BFloat16, float>>("hora_pack_bfloat16_float32_large"),
      large<Floats<double, Float16>>("hora_pack_float64_float16_large"),
      large<Floats<Float16, double>>("hora_pack_float16_float64_large"),
      large<Floats<double, BFloat16>>("hora_pack_float64_bfloat16_large"),
      large<Floats<BFloat16, double>>("hora_pack_bfloat16_float64_large"),
  };
};

/// With the memory of the fake driver, see fake_cuda.h.
std::span<const HostKernel> host_kernels();

}  // namespace hora::stand_ins
