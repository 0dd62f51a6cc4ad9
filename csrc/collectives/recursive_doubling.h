#pragma once

#include <cstddef>
#include <span>

#include "base/buffer.h"
#include "base/dtype.h"
#include "core/op.h"
#include "transport/group.h"

namespace hora {

/// Allreduce in place of short data, by recursive doubling (Thakur, Rabenseifner and Gropp, "Optimization of
/// collective communication operations in MPICH", 2005): in step s every rank exchanges all it has with the
/// rank whose number differs in bit s, and both add the two, the lower rank's first, so that results are
/// bit-equal on all ranks. It takes log2(size) messages one after another where a ring takes 2(size-1), but
/// each carries all data. Where the number of ranks is no power of two, those beyond it first give their data
/// to one of the others and get the result at the end. `dtype` is an accumulation type.
void recursive_doubling_allreduce(const Group& group, std::span<std::byte> data, DType dtype, ReduceOp op,
                                  Buffer& scratch);

}  // namespace hora
