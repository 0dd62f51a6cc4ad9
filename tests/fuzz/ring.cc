// The ring in shared memory through which a rank of the same host sends messages, with anything in it.

#include <cstring>
#include <memory>

#include "fuzz.h"
#include "transport/shm/message_ring.h"

namespace hora::fuzz {

void take(std::span<const std::byte> input) {
  const auto ring = std::make_unique<Ring>();
  std::memcpy(static_cast<void*>(ring.get()), input.data(), std::min(input.size(), sizeof(Ring)));
  RingReader reader(*ring);
  Bytes message;
  std::size_t messages = 0;
  while (reader.receive(message)) require(++messages <= Ring::kCells);
}

}  // namespace hora::fuzz
