#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "collectives/chunks.h"
#include "collectives/convert.h"
#include "collectives/hierarchical/hierarchical.h"
#include "collectives/recursive_doubling.h"
#include "collectives/reduce.h"
#include "collectives/ring_allreduce.h"
#include "collectives/shared_memory/shared_memory.h"

namespace hora {

// Allreduce in two levels. The vector is cut into one chunk for each host, a chunk into blocks, and each
// block into one slice for every rank that *owns* one: as many as the smallest host has ranks.
//
// (1) In every host, block by block through the shared slots, each owner sums its slice of what the ranks of
// the host bring. (2) The owners of the same slice on all hosts form a ring (see ring_allreduce.h), whose
// messages are slices of blocks; so each rank drives its own share of what crosses hosts, and each host sends
// 2(hosts-1)/hosts of the vector in all. (3) As slices come back complete, their owners pass them on to the
// ranks of their host, again through the slots.
//
// Blocks go in ring order of the host, so the ring starts with the first block and sums go on beside it. All
// ranks of a host take (1) and then (3) in the same order, as slots demand. The ring also moves on while a
// rank waits for another of its host, which in turn may wait for its own ring.
//
// Short data does not pay for so many messages: one rank of each host takes part in recursive doubling with
// what the ranks of its host have summed.
//
// Sums travel in accumulation type: halves as float32, which are rounded once, at the end.
namespace {

/// Some elements of the vector.
using Range = RingAllreduce::Segment;

/// The input of this rank, multiplied, in accumulation type; the identity where it has joined.
void load(const Pieces& pieces, const Reduction& reduction, Range range, std::byte* destination) {
  const DType type = accumulation_type(reduction.dtype);
  const std::size_t ratio = size_of(type) / size_of(reduction.dtype);
  pieces.visit(range.first, range.count,
               [&](const std::byte* input, std::byte*, std::size_t at, std::size_t count) {
                 std::byte* const to = destination + at * ratio;
                 if (input == nullptr) {
                   fill_identity(to, count, type, reduction.op);
                 } else {
                   widen(input, reduction.dtype, to, count, reduction.before);
                 }
               });
}

/// Results of this rank, where it wants them.
void store(const Pieces& pieces, Range range, const std::byte* results) {
  pieces.visit(range.first, range.count,
               [&](const std::byte*, std::byte* output, std::size_t at, std::size_t count) {
                 if (output != nullptr) std::copy_n(results + at, count * pieces.element_bytes(), output);
               });
}

/// What is left to do when `before`, `after` and `divisor` are somebody else's business.
Reduction plain(const Reduction& reduction) {
  return {accumulation_type(reduction.dtype), reduction.op};
}

class InBlocks {
 public:
  InBlocks(const Group& group, const Pieces& pieces, const Reduction& reduction, const Route& route,
           Buffer& staging, Buffer& scratch)
      : placement_(group.hosts()->placement),
        slots_(group.hosts()->slots),
        pieces_(pieces),
        reduction_(reduction),
        sum_bytes_(size_of(accumulation_type(reduction.dtype))),
        line_(kLine / sum_bytes_),
        block_count_(block_bytes(route, pieces.count() * sum_bytes_, group.hosts()->most_block_bytes) /
                     sum_bytes_) {
    const bool is_half = sum_bytes_ != pieces.element_bytes();
    sums_ = staging.at_least(pieces.count() * (sum_bytes_ + (is_half ? pieces.element_bytes() : 0))).data();
    results_ = is_half ? sums_ + pieces.count() * sum_bytes_ : sums_;
    cut();
    if (placement_.across != nullptr) make_ring(group, scratch);
  }

  void run() {
    if (slots_ != nullptr && ring_) slots_->do_meanwhile([this] { ring_->advance(); });
    const std::uint32_t sums = take_numbers();
    const std::uint32_t results = take_numbers();
    const auto blocks = static_cast<std::uint32_t>(blocks_.size());
    for (std::uint32_t position = 0; position < blocks; ++position) sum(position, sums + position);
    for (std::uint32_t count = 0; count < blocks; ++count) share(count, results + count);
    while (ring_ && !ring_->is_over()) await_ring();
    if (slots_ != nullptr) slots_->do_meanwhile({});
  }

 private:
  struct Block {
    int chunk;
    Range range;
  };

  [[nodiscard]] int host_count() const { return static_cast<int>(placement_.hosts.size()); }

  [[nodiscard]] std::uint32_t take_numbers() {
    return slots_ == nullptr ? 0 : slots_->take_blocks(blocks_.size());
  }

  /// A rank that is alone on its host never waits here for another.
  void look_around() {
    if (slots_ != nullptr) {
      slots_->look_around();
    } else {
      across_->pump();
    }
  }

  void await_ring() {
    ring_->advance();
    if (!ring_->is_over()) across_->pump();
  }

  /// All blocks in ring order of the host.
  void cut() {
    const Chunks chunks(pieces_.count(), host_count());
    for (int step = 0; step < host_count(); ++step) {
      const int chunk = RingAllreduce::chunk(placement_.host, host_count(), step);
      before_own_ = blocks_.size();
      for (std::size_t first = chunks.first(chunk); first < chunks.first(chunk + 1); first += block_count_)
        blocks_.push_back({chunk, {first, std::min(block_count_, chunks.first(chunk + 1) - first)}});
    }
  }

  /// A ring of this rank's slices of all blocks.
  void make_ring(const Group& group, Buffer& scratch) {
    std::vector<std::vector<Range>> segments(static_cast<std::size_t>(host_count()));
    for (const auto& [chunk, block] : blocks_)
      segments[static_cast<std::size_t>(chunk)].push_back(slice_of(block, placement_.place));
    across_.emplace(group.subset(placement_.across, placement_.host));
    ring_.emplace(
        *across_, segments,
        RingAllreduce::Memory{sums_, accumulation_type(reduction_.dtype), results_, pieces_.element_bytes()},
        reduction_.op, scratch, [this](Range segment) {
          finish_sums(sum_at(segment.first), result_at(segment.first), segment.count, reduction_);
        });
  }

  [[nodiscard]] std::byte* sum_at(std::size_t element) const { return sums_ + element * sum_bytes_; }
  [[nodiscard]] std::byte* result_at(std::size_t element) const {
    return results_ + element * pieces_.element_bytes();
  }

  /// Slices end at cache lines, so that no line has two writers.
  [[nodiscard]] Range slice_of(const Range& block, int owner) const {
    const Chunks lines((block.count + line_ - 1) / line_, placement_.owners);
    const std::size_t begin = std::min(lines.first(owner) * line_, block.count);
    const std::size_t end = std::min(lines.first(owner + 1) * line_, block.count);
    return {block.first + begin, end - begin};
  }

  /// Brings this rank's part of a block, and sums its slice of what all ranks of the host bring.
  void sum(std::size_t position, std::uint32_t number) {
    const Range& block = blocks_[position].range;
    const int own = placement_.place;
    std::byte* const slot = slots_ == nullptr ? nullptr : slots_->open(number).data();
    for (int owner = 0; owner < placement_.owners; ++owner) {
      const Range slice = slice_of(block, owner);
      const bool is_own = owner == own;
      load(pieces_, reduction_, slice,
           is_own ? sum_at(slice.first) : slot + (slice.first - block.first) * sum_bytes_);
    }
    if (slots_ != nullptr) {
      slots_->publish(number);
      if (ring_) reduce(block, slice_of(block, own), number);
      slots_->free_through(number);
    }
    if (ring_) {
      ring_->make_available(position + 1);
      ring_->advance();
    }
    look_around();
  }

  void reduce(const Range& block, const Range& slice, std::uint32_t number) {
    sources_.clear();
    std::byte* const sums = sum_at(slice.first);
    for (int peer = 0; peer < slots_->size(); ++peer) {
      const bool is_own = peer == placement_.place;
      sources_.push_back(
          is_own ? sums : slots_->await(peer, number).data() + (slice.first - block.first) * sum_bytes_);
    }
    const Destination destination{sums};
    if (slice.count > 0) reduce_all(sources_, {&destination, 1}, slice.count, plain(reduction_));
  }

  /// Passes on this rank's slice of the block that is the `count`-th to be complete, and takes the others.
  void share(std::size_t count, std::uint32_t number) {
    const std::size_t own_blocks = blocks_.size() - before_own_;
    const Range& block = blocks_[count < own_blocks ? before_own_ + count : count - own_blocks].range;
    if (ring_) {
      while (ring_->finished() <= count) await_ring();
      const Range slice = slice_of(block, placement_.place);
      store(pieces_, slice, result_at(slice.first));
      if (slots_ != nullptr) {
        std::byte* const slot = slots_->open(number).data();
        std::copy_n(result_at(slice.first), slice.count * pieces_.element_bytes(),
                    slot + (slice.first - block.first) * pieces_.element_bytes());
        slots_->publish(number);
      }
    }
    if (slots_ == nullptr) return;
    for (int owner = 0; owner < placement_.owners; ++owner) {
      if (owner == placement_.place) continue;
      const Range slice = slice_of(block, owner);
      store(pieces_, slice,
            slots_->await(owner, number).data() + (slice.first - block.first) * pieces_.element_bytes());
    }
    slots_->free_through(number);
  }

  const Placement& placement_;
  Slots* const slots_;
  const Pieces& pieces_;
  const Reduction& reduction_;
  const std::size_t sum_bytes_;  // of an element
  const std::size_t line_;       // elements of a cache line
  const std::size_t block_count_;
  std::byte* sums_;  // by element of the vector; only own slices are used
  std::byte* results_;
  std::vector<Block> blocks_;
  std::size_t before_own_ = 0;   // blocks that are not of the own chunk
  std::optional<Group> across_;  // where this rank owns slices; the ring likewise
  std::optional<RingAllreduce> ring_;
  std::vector<const std::byte*> sources_;  // kept for its memory
};

void in_one_go(const Group& group, const Pieces& pieces, const Reduction& reduction, const Route& route,
               Buffer& staging, Buffer& scratch) {
  const Placement& placement = group.hosts()->placement;
  Slots* const slots = group.hosts()->slots;
  const DType type = accumulation_type(reduction.dtype);
  const Range all{0, pieces.count()};
  const std::size_t sum_bytes = pieces.count() * size_of(type);
  std::byte* const sums = staging.at_least(sum_bytes + pieces.bytes()).data();
  std::byte* const results = sums + sum_bytes;
  load(pieces, reduction, all, sums);
  Pieces packed(size_of(type));
  packed.add(sums, sums, pieces.count());
  if (slots != nullptr) shared_allreduce(*slots, packed, plain(reduction), true, route);
  if (placement.place == 0) {
    const Group across = group.subset(placement.across, placement.host);
    recursive_doubling_allreduce(across, {sums, sum_bytes}, type, reduction.op, scratch);
  }
  if (slots != nullptr) shared_broadcast(*slots, packed, 0, route);
  finish_sums(sums, results, pieces.count(), reduction);
  store(pieces, all, results);
}

}  // namespace

void hierarchical_allreduce(const Group& group, const Pieces& pieces, const Reduction& reduction,
                            const Route& route, Buffer& staging, Buffer& scratch) {
  if (pieces.count() == 0) return;
  if (route.across == Route::Across::kDoubling)
    return in_one_go(group, pieces, reduction, route, staging, scratch);
  InBlocks(group, pieces, reduction, route, staging, scratch).run();
}

}  // namespace hora
