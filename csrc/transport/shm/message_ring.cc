#include "transport/shm/message_ring.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace hora {
namespace {

constexpr std::size_t kPayload = std::tuple_size_v<decltype(Cell::payload)>;
// The receiver says so often how far it is; the sender then never waits for a cell that has been read.
constexpr std::uint32_t kReportEvery = Ring::kCells / 4;

}  // namespace

void RingWriter::post(std::span<const std::byte> message) {
  std::size_t written = 0;
  if (waiting_.empty() && write(message, written)) return;
  if (waiting_.empty()) written_ = written;
  waiting_.emplace_back(message.begin(), message.end());
}

bool RingWriter::flush() {
  while (!waiting_.empty()) {
    if (!write(waiting_.front(), written_)) return false;
    waiting_.pop_front();
    written_ = 0;
  }
  return true;
}

/// Writes cells from `written` on; says whether the message is through. An empty message is one empty cell.
bool RingWriter::write(std::span<const std::byte> message, std::size_t& written) {
  for (;;) {
    if (position_ - consumed_ == Ring::kCells) {
      consumed_ = ring_.consumed.load(std::memory_order_acquire);
      if (position_ - consumed_ == Ring::kCells) return false;
    }
    Cell& cell = ring_.cells[position_ % Ring::kCells];
    const std::size_t length = std::min(kPayload, message.size() - written);
    if (length != 0) std::memcpy(cell.payload.data(), message.data() + written, length);
    written += length;
    const bool is_last = written == message.size();
    cell.length = static_cast<std::uint16_t>(length);
    cell.is_last = is_last ? 1 : 0;
    if (is_last) {
      // Ordered before the look whether the receiver sleeps.
      cell.stamp.store(++position_, std::memory_order_seq_cst);
      return true;
    }
    cell.stamp.store(++position_, std::memory_order_release);
  }
}

bool RingReader::has_cell() const {
  const std::uint32_t position = position_.load(std::memory_order_seq_cst);
  return ring_.cells[position % Ring::kCells].stamp.load(std::memory_order_seq_cst) == position + 1;
}

bool RingReader::receive(Bytes& message) {
  while (has_cell()) {
    const std::uint32_t position = position_.load(std::memory_order_relaxed);
    const Cell& cell = ring_.cells[position % Ring::kCells];
    const std::size_t length = cell.length;
    if (length > kPayload)
      raise(ErrorKind::kSessionFailed, "damaged message: {} bytes in a cell of {}", length, kPayload);
    partial_.insert(partial_.end(), cell.payload.begin(),
                    cell.payload.begin() + static_cast<std::ptrdiff_t>(length));
    const bool is_last = cell.is_last != 0;
    // In one order with the stamps and the sleepers' flags: who is about to sleep must not look at an old
    // place.
    position_.store(position + 1, std::memory_order_seq_cst);
    if ((position + 1) % kReportEvery == 0) ring_.consumed.store(position + 1, std::memory_order_release);
    if (!is_last) continue;
    message = std::exchange(partial_, {});
    return true;
  }
  return false;
}

}  // namespace hora
