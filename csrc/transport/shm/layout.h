#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace hora {

// What lies in the segment that the ranks of a host share. Every line of 64 bytes has one writer, so that no
// two cores fight over it.

inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kPage = 4096;

/// A piece of a message in the line of its own flag: one cache line crosses between two cores, not two.
struct alignas(kLine) Cell {
  std::atomic<std::uint32_t> stamp;  ///< position in the stream of cells, from 1; written last
  std::uint16_t length;
  std::uint16_t is_last;
  std::array<std::byte, 56> payload;
};
static_assert(sizeof(Cell) == kLine && std::atomic<std::uint32_t>::is_always_lock_free);

/// Messages of agreement from one rank to another.
struct Ring {
  static constexpr std::uint32_t kCells = 64;
  alignas(kLine) std::atomic<std::uint32_t> consumed;  ///< by the receiver, from time to time
  std::array<Cell, kCells> cells;
};

/// A count that one rank raises and the others read.
struct alignas(kLine) Count {
  std::atomic<std::uint64_t> value;
};

/// Up to 56 bytes in the line of their flag.
struct alignas(kLine) Note {
  std::atomic<std::uint64_t> ticket;
  std::array<std::byte, 56> payload;
};

/// One rank's flags for the others. Tickets are explained in `slots.h`.
struct Board {
  static constexpr std::size_t kNotes = 4;
  Count filled;   ///< everything below this ticket has been written into this rank's slots
  Count reduced;  ///< ... and the part of it that this rank reduces is a result now
  Count freed;    ///< this rank has read everything that it reads below this ticket
  Count asleep;   ///< not 0: ring this rank's bell after sending it a message
  Count signal;   ///< not 0: of the signal that this rank's process was about to die of
  std::array<Note, kNotes> notes;
};

/// Where things lie. Pure arithmetic, the same on all ranks of the host.
struct HostLayout {
  static constexpr std::size_t kSlots = 4;  ///< of each rank

  std::size_t ranks = 1;
  std::size_t slot_bytes = 0;  ///< a multiple of the page size
  std::size_t heap_bytes = 0;  ///< for each rank, a multiple of the page size

  [[nodiscard]] std::size_t board(std::size_t rank) const { return rank * sizeof(Board); }
  [[nodiscard]] std::size_t ring(std::size_t from, std::size_t to) const {
    return round(board(ranks)) + (from * ranks + to) * sizeof(Ring);
  }
  /// Begins with a line for remarks, then the data.
  [[nodiscard]] std::size_t slot(std::size_t rank, std::size_t number) const {
    return round(ring(ranks, 0)) + (rank * kSlots + number) * (kPage + slot_bytes);
  }
  [[nodiscard]] std::size_t heap(std::size_t rank) const { return slot(ranks, 0) + rank * heap_bytes; }
  /// All but the heaps, which are reserved as they are used.
  [[nodiscard]] std::size_t fixed_bytes() const { return heap(0); }
  [[nodiscard]] std::size_t total_bytes() const { return heap(ranks); }
  /// Whether a host with so many ranks can have it.
  [[nodiscard]] bool is_sound(std::size_t ranks_there) const {
    constexpr std::size_t kAddressSpace = std::size_t{1} << 47;
    if (ranks != ranks_there || slot_bytes % kPage != 0 || heap_bytes % kPage != 0) return false;
    // Some collectives give each rank a section of a slot.
    if (slot_bytes / kLine < ranks) return false;
    return slot_bytes <= kAddressSpace / kSlots / ranks && heap_bytes <= kAddressSpace / ranks;
  }

 private:
  static constexpr std::size_t round(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
};

}  // namespace hora
