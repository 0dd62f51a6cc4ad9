#include "collectives/barrier.h"

#include <cstddef>
#include <span>

namespace hora {

void dissemination_barrier(const Group& group) {
  const int size = group.size();
  for (int distance = 1; distance < size; distance *= 2) {
    std::byte signal{};
    std::byte heard{};
    Transfer outgoing = group.send((group.rank() + distance) % size, std::span(&signal, 1));
    Transfer incoming = group.recv((group.rank() - distance + size) % size, std::span(&heard, 1));
    group.wait(incoming);
    group.wait(outgoing);
  }
}

}  // namespace hora
