#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "collectives/chunks.h"
#include "collectives/shared_memory/shared_memory.h"

namespace hora {

// Allreduce through shared slots. The vector is cut into blocks, which stream through the few slots of each
// rank, so that the slots stay in the caches however long the vector is.
//
// One phase: every rank copies its whole block into its slot, waits for those of the others and reduces all
// of them into its own output. One wait for each block, but every rank reads all n blocks.
//
// Two phases: a block is cut into n slices. Every rank copies what is not its own slice into its slot (1);
// reduces its own slice from its input and the slots of the others, and writes the result into its output and
// its slot (2); and copies the other slices from the slots of their owners into its output (3). Blocks are
// staggered: while (1) goes on for block b, (2) does for b-1 and (3) for b-2, so that ranks rarely wait.
//
// A vector that fits into a note travels in the cache line of its flag.
//
// Every element is reduced in the order of ranks with one rounding at the end, whichever way it goes, so that
// results are bit-equal on all ranks and from run to run.
namespace {

constexpr std::byte kPresent{1};
constexpr std::byte kAbsent{2};

class Allreduce {
 public:
  Allreduce(Slots& slots, const Pieces& pieces, const Reduction& reduction, bool all_contribute,
            const Route& route)
      : slots_(slots),
        pieces_(pieces),
        reduction_(reduction),
        all_contribute_(all_contribute),
        store_(route.streaming ? Store::kStreaming : Store::kCached),
        block_count_(block_bytes(slots, route, pieces.bytes()) / pieces.element_bytes()),
        blocks_((pieces.count() + block_count_ - 1) / block_count_),
        first_block_(slots.take_blocks(blocks_)),
        line_(std::max<std::size_t>(kLine / pieces.element_bytes(), 1)) {}

  void one_phase() {
    for (std::size_t step = 0; step <= blocks_; ++step) {
      if (step < blocks_) fill(step, [](int) { return true; });
      if (step >= 1) reduce_all_of(step - 1);
    }
  }

  void two_phases() {
    const int own = slots_.rank();
    for (std::size_t step = 0; step < blocks_ + 2; ++step) {
      if (step < blocks_) fill(step, [own](int owner) { return owner != own; });
      if (step >= 1 && step - 1 < blocks_) reduce_slice(step - 1);
      if (step >= 2) collect(step - 2);
    }
  }

 private:
  struct Range {
    std::size_t first;  // element of the vector
    std::size_t count;
  };

  [[nodiscard]] std::uint32_t number(std::size_t block) const {
    return first_block_ + static_cast<std::uint32_t>(block);
  }
  [[nodiscard]] Range range_of(std::size_t block) const {
    const std::size_t first = block * block_count_;
    return {first, std::min(block_count_, pieces_.count() - first)};
  }
  /// Slices end at cache lines, so that no line has two writers.
  [[nodiscard]] Range slice_of(std::size_t block, int owner) const {
    const Range range = range_of(block);
    const Chunks lines((range.count + line_ - 1) / line_, slots_.size());
    const std::size_t begin = std::min(lines.first(owner) * line_, range.count);
    const std::size_t end = std::min(lines.first(owner + 1) * line_, range.count);
    return {range.first + begin, end - begin};
  }
  /// Where an element of a block lies in its slot.
  [[nodiscard]] std::size_t offset(std::size_t block, std::size_t element) const {
    return (element - block * block_count_) * pieces_.element_bytes();
  }

  /// Copies the slices of some owners into this rank's slot.
  template <typename Wanted>
  void fill(std::size_t block, Wanted wanted) {
    const std::span<std::byte> slot = slots_.open(number(block));
    bool is_absent = false;
    for (int owner = 0; owner < slots_.size(); ++owner) {
      if (!wanted(owner)) continue;
      const Range slice = slice_of(block, owner);
      std::byte* const to = slot.data() + offset(block, slice.first);
      pieces_.visit(slice.first, slice.count,
                    [&](const std::byte* input, std::byte*, std::size_t at, std::size_t count) {
                      is_absent |= input == nullptr;
                      if (input != nullptr) copy(input, to + at, count * pieces_.element_bytes(), store_);
                    });
    }
    if (!all_contribute_) slots_.remark(slots_.rank(), number(block)) = is_absent ? kAbsent : kPresent;
    slots_.publish(number(block));
  }

  /// The other ranks' data of a block, by rank; null for this rank itself, left out for those that have none.
  void await_blocks(std::size_t block) {
    peers_.clear();
    for (int peer = 0; peer < slots_.size(); ++peer) {
      if (peer == slots_.rank()) {
        peers_.push_back(nullptr);
        continue;
      }
      const std::byte* const data = slots_.await(peer, number(block)).data();
      if (all_contribute_ || slots_.remark(peer, number(block)) != kAbsent) peers_.push_back(data);
    }
  }

  /// Reduces a range into the outputs, and into `copy_to` as well unless that is null.
  void reduce_range(std::size_t block, Range range, std::byte* copy_to) {
    const std::size_t begin = offset(block, range.first);
    pieces_.visit(range.first, range.count,
                  [&](const std::byte* input, std::byte* output, std::size_t at, std::size_t count) {
                    sources_.clear();
                    for (const std::byte* const peer : peers_) {
                      if (peer != nullptr) {
                        sources_.push_back(peer + begin + at);
                      } else if (input != nullptr) {
                        sources_.push_back(input);
                      }
                    }
                    std::array<Destination, 2> destinations;
                    std::size_t used = 0;
                    if (output != nullptr) destinations[used++] = {output, Store::kCached};
                    if (copy_to != nullptr) destinations[used++] = {copy_to + at, store_};
                    if (used == 0) return;
                    reduce_all(sources_, std::span(destinations).first(used), count, reduction_);
                  });
  }

  void reduce_all_of(std::size_t block) {
    await_blocks(block);
    reduce_range(block, range_of(block), nullptr);
    slots_.free_through(number(block));
  }

  void reduce_slice(std::size_t block) {
    await_blocks(block);
    const Range slice = slice_of(block, slots_.rank());
    std::byte* const own_slot = slots_.slot(slots_.rank(), number(block)).data();
    reduce_range(block, slice, own_slot + offset(block, slice.first));
    slots_.publish_reduced(number(block));
  }

  void collect(std::size_t block) {
    for (int step = 1; step < slots_.size(); ++step) {
      const int owner = (slots_.rank() + step) % slots_.size();
      const std::byte* const slot = slots_.await_reduced(owner, number(block)).data();
      const Range slice = slice_of(block, owner);
      const std::byte* const from = slot + offset(block, slice.first);
      pieces_.visit(slice.first, slice.count,
                    [&](const std::byte*, std::byte* output, std::size_t at, std::size_t count) {
                      if (output != nullptr)
                        copy(from + at, output, count * pieces_.element_bytes(), Store::kCached);
                    });
    }
    slots_.free_through(number(block));
  }

  Slots& slots_;
  const Pieces& pieces_;
  const Reduction& reduction_;
  const bool all_contribute_;
  const Store store_;
  const std::size_t block_count_;
  const std::size_t blocks_;
  const std::uint32_t first_block_;
  const std::size_t line_;  // elements of a cache line
  std::vector<const std::byte*> peers_;
  std::vector<const std::byte*> sources_;
};

/// All contribute, and everything fits into a note.
void allreduce_in_notes(Slots& slots, const Pieces& pieces, const Reduction& reduction) {
  std::array<std::byte, Slots::kNoteBytes> own;
  pieces.visit(0, pieces.count(), [&](const std::byte* input, std::byte*, std::size_t at, std::size_t count) {
    std::memcpy(own.data() + at, input, count * pieces.element_bytes());
  });
  std::vector<std::byte> all(pieces.bytes() * static_cast<std::size_t>(slots.size()));
  slots.exchange_notes(std::span(own).first(pieces.bytes()), all);
  std::vector<const std::byte*> sources;
  for (int rank = 0; rank < slots.size(); ++rank)
    sources.push_back(all.data() + static_cast<std::size_t>(rank) * pieces.bytes());
  const Destination result{own.data()};
  reduce_all(sources, {&result, 1}, pieces.count(), reduction);
  pieces.visit(0, pieces.count(),
               [&](const std::byte*, std::byte* output, std::size_t at, std::size_t count) {
                 std::memcpy(output, own.data() + at, count * pieces.element_bytes());
               });
}

}  // namespace

void shared_allreduce(Slots& slots, const Pieces& pieces, const Reduction& reduction, bool all_contribute,
                      const Route& route) {
  if (pieces.count() == 0) return;
  if (all_contribute && pieces.bytes() <= Slots::kNoteBytes)
    return allreduce_in_notes(slots, pieces, reduction);
  Allreduce allreduce(slots, pieces, reduction, all_contribute, route);
  if (route.reduction == Route::Reduction::kOnePhase) {
    allreduce.one_phase();
  } else {
    allreduce.two_phases();
  }
}

}  // namespace hora
