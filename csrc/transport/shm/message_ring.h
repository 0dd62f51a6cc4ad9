#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "base/bytes.h"
#include "transport/shm/layout.h"

namespace hora {

/// The sending end of a ring: cuts messages into cells and keeps those that do not fit yet. One thread.
class RingWriter {
 public:
  explicit RingWriter(Ring& ring) : ring_(ring) {}

  /// Never blocks; a later `flush` may have to write the rest.
  void post(std::span<const std::byte> message);
  /// Writes what fits; says whether nothing is left.
  bool flush();
  [[nodiscard]] bool is_through() const { return waiting_.empty(); }

 private:
  [[nodiscard]] bool write(std::span<const std::byte> message, std::size_t& written);

  Ring& ring_;
  std::uint32_t position_ = 0;
  std::uint32_t consumed_ = 0;  // last seen
  std::deque<Bytes> waiting_;
  std::size_t written_ = 0;  // of the first one
};

/// The receiving end. One thread receives; any may ask whether there is something to receive.
class RingReader {
 public:
  explicit RingReader(Ring& ring) : ring_(ring) {}

  /// Whether a message has begun to arrive.
  [[nodiscard]] bool has_cell() const;
  /// Takes the next whole message, if there is one.
  [[nodiscard]] bool receive(Bytes& message);

 private:
  Ring& ring_;
  std::atomic<std::uint32_t> position_{0};
  Bytes partial_;
};

}  // namespace hora
