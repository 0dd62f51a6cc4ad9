#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/kernels.h"
#include "collectives/shared_memory/pieces.h"
#include "core/route.h"
#include "transport/shm/slots.h"

namespace hora {

// Collectives of ranks that share memory; each is explained in its file. Ranks count within the batch.

/// Size of the blocks in which `bytes` move: as the route says, larger where there would be too many of them.
[[nodiscard]] inline std::size_t block_bytes(const Route& route, std::size_t bytes, std::size_t most) {
  const std::size_t least = (bytes / (Slots::kMostBlocks / 32) + kLine - 1) / kLine * kLine;
  return std::min(std::max<std::size_t>(route.block_bytes, least), most);
}
[[nodiscard]] inline std::size_t block_bytes(const Slots& slots, const Route& route, std::size_t bytes) {
  return block_bytes(route, bytes, slots.block_bytes());
}

/// Every rank gets the reduction of all. `all_contribute` says that no rank's input is null.
void shared_allreduce(Slots& slots, const Pieces& pieces, const Reduction& reduction, bool all_contribute,
                      const Route& route);

/// The same on memory of the shared heaps of all ranks, without any copy, if all their tensors lie there;
/// says whether they do. All ranks contribute; `tensors` have the same lengths everywhere.
struct DirectTensor {
  const std::byte* input;
  std::byte* output;
  std::size_t count;
};
[[nodiscard]] bool direct_allreduce(Slots& slots, std::span<const DirectTensor> tensors,
                                    const Reduction& reduction);

/// Every rank gets the root's input.
void shared_broadcast(Slots& slots, const Pieces& pieces, int root, const Route& route);

/// Rank r brings `bounds[r] .. bounds[r+1]` of `data` and gets the rest.
void shared_allgather(Slots& slots, std::span<std::byte> data, std::span<const std::size_t> bounds,
                      const Route& route);

/// Every rank contributes a vector of the same length; all of them come, by rank.
[[nodiscard]] std::vector<std::int64_t> shared_exchange(Slots& slots, std::span<const std::int64_t> own);

/// As `pairwise_alltoall`; `bytes[from * size + to]` is what rank `from` sends to rank `to`.
void shared_alltoall(Slots& slots, std::span<const std::byte> source, std::span<std::byte> destination,
                     std::span<const std::size_t> bytes, const Route& route);

/// `parts[r]` is what this rank has for rank r; it gets the reduction of what all have for it.
void shared_reduce_scatter(Slots& slots, std::span<const Pieces> parts, const Reduction& reduction,
                           bool all_contribute, const Route& route);

}  // namespace hora
