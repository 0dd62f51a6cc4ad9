#include "collectives/alltoall.h"

#include <algorithm>

namespace hora {
namespace {

template <typename Byte>
std::span<Byte> part(std::span<Byte> data, std::span<const std::size_t> bounds, int rank) {
  const auto at = static_cast<std::size_t>(rank);
  return data.subspan(bounds[at], bounds[at + 1] - bounds[at]);
}

}  // namespace

void pairwise_alltoall(const Group& group, std::span<const std::byte> source,
                       std::span<const std::size_t> send_bounds, std::span<std::byte> destination,
                       std::span<const std::size_t> receive_bounds) {
  const int size = group.size();
  const int rank = group.rank();
  std::ranges::copy(part(source, send_bounds, rank), part(destination, receive_bounds, rank).begin());
  for (int step = 1; step < size; ++step) {
    const int to = (rank + step) % size;
    const int from = (rank - step + size) % size;
    Transfer incoming = group.recv(from, part(destination, receive_bounds, from));
    Transfer outgoing = group.send(to, part(source, send_bounds, to));
    group.wait(incoming);
    group.wait(outgoing);
  }
}

}  // namespace hora
