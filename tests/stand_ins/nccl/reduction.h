#pragma once

#include <cstddef>
#include <span>

#include "backends/nccl/nccl_api.h"

namespace hora::fake_nccl {

/// Reduces `count` elements of all ranks, in the order of `sources`, with NCCL's arithmetic: halves are
/// rounded to their type after each step, integers wrap; an average multiplies floating-point values by
/// 1/ranks, rounded to their type, before they are added, and divides an integer sum, truncating toward zero.
void reduce(nccl::DataType type, nccl::RedOp op, std::span<const std::byte* const> sources, std::byte* to,
            std::size_t count);

}  // namespace hora::fake_nccl
