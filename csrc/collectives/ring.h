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
/// chunk that comes from the previous one, so that after size-1 steps rank r holds the complete chunk r.
/// Allgather: the complete chunks travel round the ring once more. Each rank sends 2(size-1)/size of the data
/// in all, the least possible. A chunk is reduced in one place and then copied, so results are bit-equal on
/// all ranks.

/// Reduce-scatter in place over `data`, elements of an accumulation type: afterwards rank r holds chunk r
/// complete, where `bounds[r] .. bounds[r+1]` is its byte range; chunks may have any lengths. They travel in
/// segments, so that adding one overlaps with receiving the next; `scratch` is kept by the caller to be used
/// again.
void ring_reduce_scatter(const Group& group, std::span<std::byte> data, std::span<const std::size_t> bounds,
                         DType dtype, ReduceOp op, Buffer& scratch);

/// Allgather in place: rank r brings `bounds[r] .. bounds[r+1]` of `data` and gets the rest.
void ring_allgather(const Group& group, std::span<std::byte> data, std::span<const std::size_t> bounds);

/// Byte bounds of the chunks into which `count` elements of `element_bytes` are cut for this group.
[[nodiscard]] std::vector<std::size_t> chunk_bounds(const Group& group, std::size_t count,
                                                    std::size_t element_bytes);

}  // namespace hora
