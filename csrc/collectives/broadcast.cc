#include "collectives/broadcast.h"

#include <bit>
#include <vector>

namespace hora {

void binomial_broadcast(const Group& group, std::span<std::byte> data, int root) {
  const int size = group.size();
  const int distance = (group.rank() - root + size) % size;  // from the root
  const auto rank_at = [&](int number) { return (number + root) % size; };

  int round = 1;
  if (distance > 0) {
    const auto highest = static_cast<int>(std::bit_floor(static_cast<unsigned>(distance)));
    Transfer incoming = group.recv(rank_at(distance - highest), data);
    group.wait(incoming);
    round = highest * 2;
  }
  std::vector<Transfer> sends;
  // The farthest child has the largest subtree below it in rounds to come, so the nearest rounds go first.
  for (; distance + round < size; round *= 2) sends.push_back(group.send(rank_at(distance + round), data));
  for (Transfer& transfer : sends) group.wait(transfer);
}

}  // namespace hora
