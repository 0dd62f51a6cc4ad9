#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/dtype.h"
#include "core/op.h"
#include "transport/group.h"

namespace hora {

/// Ring allreduce in its two halves (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
/// clusters of workstations", 2009). The ranks form a ring; the data is cut into one chunk per rank.
///
/// Reduce-scatter: in step s every rank sends the chunk it finished last to its next neighbour and adds the
/// chunk that comes from the previous one, so that after size-1 steps rank r holds the complete chunk r+1.
/// Allgather: the complete chunks travel round the ring once more. Each rank sends 2(size-1)/size of the data
/// in all, the least possible. A chunk is reduced in one place and then copied, so results are bit-equal on
/// all ranks.

/// Reduce-scatter in place over `data`, elements of an accumulation type; returns the chunk that this rank
/// holds complete. Chunks travel in segments, so that adding one overlaps with receiving the next; `scratch`
/// is kept by the caller to be used again.
[[nodiscard]] int ring_reduce_scatter(const Group& group, std::span<std::byte> data, DType dtype, ReduceOp op,
                                      Buffer& scratch);

/// Completes the other half: `bounds[c] .. bounds[c+1]` is the byte range of chunk c in `data`, and this rank
/// holds chunk `own`. With `own` = rank this is the allgather of blocks of any lengths.
void ring_allgather(const Group& group, std::span<std::byte> data, std::span<const std::size_t> bounds,
                    int own);

/// Both halves.
void ring_allreduce(const Group& group, std::span<std::byte> data, DType dtype, ReduceOp op, Buffer& scratch);

/// Byte bounds of the chunks into which `count` elements of `element_bytes` are cut for this group.
[[nodiscard]] std::vector<std::size_t> chunk_bounds(const Group& group, std::size_t count,
                                                    std::size_t element_bytes);

}  // namespace hora
