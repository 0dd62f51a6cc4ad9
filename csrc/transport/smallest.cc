#include "transport/smallest.h"

#include <algorithm>
#include <span>
#include <thread>

#include "base/error.h"

namespace hora {

void StartDeadline::await(Transport& transport, Ticket ticket) const {
  while (!transport.done(ticket)) {
    if (Clock::now() > end_)
      raise(ErrorKind::kSessionFailed, "not all ranks called init within {} s (HORA_START_TIMEOUT_SECONDS)",
            whole_seconds(timeout_));
    std::this_thread::yield();
  }
}

std::int64_t smallest(Transport& transport, std::int64_t own, Duration timeout) {
  const StartDeadline deadline(timeout);
  const int size = transport.topology().size();
  const int rank = transport.topology().rank();
  for (int distance = 1; distance < size; distance *= 2) {
    const std::int64_t known = own;
    std::int64_t heard = 0;
    const Ticket incoming = transport.recv((rank - distance + size) % size, Transport::kStartTag,
                                           std::as_writable_bytes(std::span(&heard, 1)));
    const Ticket outgoing =
        transport.send((rank + distance) % size, Transport::kStartTag, std::as_bytes(std::span(&known, 1)));
    deadline.await(transport, incoming);
    deadline.await(transport, outgoing);
    own = std::min(own, heard);
  }
  return own;
}

}  // namespace hora
