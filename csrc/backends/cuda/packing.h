#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/pack_arguments.h"
#include "base/dtype.h"
#include "core/op.h"

namespace hora::cuda {

/// A kernel of pack_kernels.cu. There it exists twice, for few and for many pieces; the name of the second
/// ends in "_large".
struct PackKernel {
  std::string_view name;
  std::size_t from_bytes;  ///< per element; 1 where addresses need no alignment
  std::size_t to_bytes;
};

inline constexpr std::array<PackKernel, 22> kPackKernels{{
    {"hora_copy", 1, 1},
    {"hora_fill", 1, 1},
    {"hora_pack_bool_uint8", 1, 1},
    {"hora_pack_uint8_uint8", 1, 1},
    {"hora_pack_int8_int8", 1, 1},
    {"hora_pack_int16_int16", 2, 2},
    {"hora_pack_int32_int32", 4, 4},
    {"hora_pack_int64_int64", 8, 8},
    {"hora_pack_int16_int32", 2, 4},
    {"hora_pack_int32_int16", 4, 2},
    {"hora_pack_float16_float16", 2, 2},
    {"hora_pack_bfloat16_bfloat16", 2, 2},
    {"hora_pack_float32_float32", 4, 4},
    {"hora_pack_float64_float64", 8, 8},
    {"hora_pack_float32_float16", 4, 2},
    {"hora_pack_float16_float32", 2, 4},
    {"hora_pack_float32_bfloat16", 4, 2},
    {"hora_pack_bfloat16_float32", 2, 4},
    {"hora_pack_float64_float16", 8, 2},
    {"hora_pack_float16_float64", 2, 8},
    {"hora_pack_float64_bfloat16", 8, 2},
    {"hora_pack_bfloat16_float64", 2, 8},
}};

/// How values change on their way. Integers are divided first (truncated toward zero), then everything is
/// multiplied, in the meaning of `Reduction`; what is computed in which type stands in pack_elements.h.
struct Packing {
  DType from;
  DType to;
  double scale = 1.0;
  std::int64_t divisor = 1;
};

/// The row of `kPackKernels` that does it. Throws Error(kSessionFailed) where there is none.
[[nodiscard]] std::size_t pack_kernel(const Packing& packing);

/// One launch of a kernel. The arguments hold as many pieces as there are, also of a kernel for few pieces,
/// whose parameter is their beginning.
struct PackLaunch {
  std::size_t kernel;  ///< in kPackKernels
  unsigned blocks;
  std::unique_ptr<LargePackArguments> arguments;

  [[nodiscard]] bool is_large() const { return arguments->piece_count > SmallPackArguments::kMaxPieces; }
};

/// The launches that move all pieces, `capacity` of them at most each; their order does not matter. `count`
/// is in elements; `first_block` is not looked at. A piece may be moved in place where the type stays the
/// same. Pieces without elements are skipped. Throws Error(kInvalidArgument) where an address is not aligned
/// to its elements and the values change.
[[nodiscard]] std::vector<PackLaunch> plan_launches(std::span<const PackPiece> pieces, const Packing& packing,
                                                    std::size_t capacity);

/// The launches that fill `to` of every piece with the element that changes nothing when it is reduced, what
/// a rank that has joined contributes. `from` is not looked at.
[[nodiscard]] std::vector<PackLaunch> plan_fills(std::span<const PackPiece> pieces, DType dtype,
                                                 ReduceOp reduce, std::size_t capacity);

}  // namespace hora::cuda
