#include "transport/shm/host_memory.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>
#include <utility>

namespace hora {

HostMemory::HostMemory(Segment segment, HostLayout layout, int rank, std::vector<Descriptor> bells)
    : segment_(std::move(segment)), layout_(layout), rank_(rank), bells_(std::move(bells)) {}

void HostMemory::ring_bell(int rank) const {
  // Fails only when the bell has been rung 2^64 times and not been heard.
  static_cast<void>(eventfd_write(bells_[index(rank)].get(), 1));
}

void HostMemory::await_bell(Duration at_most) const {
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(at_most).count();
  const timespec timeout{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  pollfd bell{bells_[index(rank_)].get(), POLLIN, 0};
  if (ppoll(&bell, 1, &timeout, nullptr) != 1) return;
  eventfd_t rings = 0;
  static_cast<void>(eventfd_read(bell.fd, &rings));
}

}  // namespace hora
