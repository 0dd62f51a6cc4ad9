#pragma once

#include <cstddef>
#include <span>

#include "base/buffer.h"
#include "base/dtype.h"
#include "transport/group.h"

namespace hora {

/// Adaptive summation in place (Maleki et al., "Scaling Distributed Training with Adaptive Summation", 2020):
/// two vectors a and b combine to (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b, which adds what is orthogonal
/// and averages what is parallel; ranks combine in a binary tree.
///
/// `data` holds tensors one after another, `lengths` their numbers of elements; each combines by itself.
/// `dtype` is float32 or float64; scalar products are formed in double. Vectors are halved and distances
/// doubled from step to step (Rabenseifner 2004), so every element is combined in one place and then copied,
/// and results are bit-equal on all ranks. Ranks beyond the largest power of two combine with a rank below it
/// first.
void adasum(const Group& group, std::span<std::byte> data, std::span<const std::size_t> lengths, DType dtype,
            Buffer& scratch);

}  // namespace hora
