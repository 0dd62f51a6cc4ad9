#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "transport/shm/host_memory.h"

namespace hora {

/// Who still has to read what this rank has put into its slots and notes. Lives as long as the session.
struct SlotLedger {
  struct Use {
    std::uint64_t ticket = 0;
    std::shared_ptr<const std::vector<int>> readers;  ///< ranks of the job; null: nobody
  };
  std::array<Use, HostLayout::kSlots> slots;
  std::array<Use, Board::kNotes> notes;
  std::vector<std::uint64_t> freed;  ///< what each rank of the host is known to have freed, by local rank
};

/// What a member does besides its own part of a batch.
struct SlotWaits {
  int spins;                            ///< looks before the first `while_waiting`
  std::function<void()> while_waiting;  ///< called again and again while it waits; may give the core away
  std::function<void()> between;        ///< called while it works; does not
};

/// How the members of one batch, all on one host, hand each other blocks of data through slots.
///
/// A block is named by its ticket, which is the number of its batch in the job's sequence and a count within
/// the batch, so that all members know it without asking, and tickets only grow. Block b of a batch lies in
/// slot (number + b) mod kSlots of its writer. The writer raises its count `filled` past the ticket when the
/// block is there; readers wait for that and read it where it lies; each raises its own count `freed` past
/// the ticket when it will not look at the block again, and the writer uses the slot anew only when every
/// reader has done so. One count for each rank is enough whatever process sets there are: a rank runs its
/// batches in the order of their numbers.
///
/// Short data goes in a note instead, whose flag and payload are one cache line.
///
class Slots {
 public:
  using Members = std::shared_ptr<const std::vector<int>>;
  /// `local_ranks[r]` is the number on the host of rank r of the job.
  Slots(const HostMemory& memory, SlotLedger& ledger, std::span<const int> local_ranks, Members members,
        std::uint64_t batch_number, const SlotWaits& waits);
  ~Slots();
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  static constexpr std::size_t kNoteBytes = std::tuple_size_v<decltype(Note::payload)>;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(members_->size()); }
  /// Where memory of this rank lies for the others, or HostMemory::kElsewhere; and memory of another.
  [[nodiscard]] std::int64_t offset_of(const std::byte* memory, std::size_t bytes) const {
    return memory_.offset_of(memory, bytes);
  }
  [[nodiscard]] std::byte* memory_at(int peer, std::int64_t offset, std::size_t bytes) const {
    return memory_.memory_at(local(peer), offset, bytes);
  }
  /// The batch went another way than its route says, so its time teaches nothing about the route.
  void had_no_route() { took_route_ = false; }
  [[nodiscard]] bool took_route() const { return took_route_; }

  /// What else this rank does for the batch whenever it waits here; empty: nothing.
  void do_meanwhile(std::function<void()> work) { meanwhile_ = std::move(work); }
  /// To be called now and then by whoever works long without waiting.
  void look_around() const { waits_.between(); }

  [[nodiscard]] std::size_t block_bytes() const { return memory_.layout().slot_bytes; }

  /// Blocks of one batch, of all its collectives together, are fewer than this.
  static constexpr std::size_t kMostBlocks = std::size_t{1} << 22;

  /// Sets aside the next `count` blocks of the batch and returns the number of the first. All members do so
  /// alike, whoever of them will write.
  [[nodiscard]] std::uint32_t take_blocks(std::size_t count);

  /// This rank's slot for a block, once nobody reads what was in it.
  [[nodiscard]] std::span<std::byte> open(std::uint32_t block);
  /// The block is filled for all other members.
  void publish(std::uint32_t block);
  /// This rank's part of the block is a result now.
  void publish_reduced(std::uint32_t block);
  /// A peer's slot, once its block is filled, or its part is a result.
  [[nodiscard]] std::span<const std::byte> await(int peer, std::uint32_t block);
  [[nodiscard]] std::span<const std::byte> await_reduced(int peer, std::uint32_t block);
  /// The slot of a block that has been opened or awaited.
  [[nodiscard]] std::span<std::byte> slot(int peer, std::uint32_t block) const;
  /// A byte that travels with a block.
  [[nodiscard]] std::byte& remark(int peer, std::uint32_t block) const;
  /// This rank has read all that it reads of blocks up to this one. The end of the batch frees all.
  void free_through(std::uint32_t block);

  /// Every member contributes `own`, at most kNoteBytes, the same length everywhere, and gets all, by rank.
  void exchange_notes(std::span<const std::byte> own, std::span<std::byte> all);

 private:
  static constexpr unsigned kBlockBits = 22;
  static_assert(kMostBlocks == std::size_t{1} << kBlockBits);

  [[nodiscard]] std::uint64_t ticket(std::uint32_t block) const {
    return (batch_number_ << kBlockBits | block) + 1;
  }
  [[nodiscard]] std::size_t slot_number(std::uint32_t block) const {
    return static_cast<std::size_t>((batch_number_ + block) % HostLayout::kSlots);
  }
  [[nodiscard]] int local(int member) const {
    return local_ranks_[static_cast<std::size_t>((*members_)[static_cast<std::size_t>(member)])];
  }
  void await_readers(SlotLedger::Use& use);
  void await_count(const std::atomic<std::uint64_t>& count, std::uint64_t at_least) const;
  void has_come_to_this_batch(int member);

  const HostMemory& memory_;
  SlotLedger& ledger_;
  std::span<const int> local_ranks_;
  const Members members_;
  const std::uint64_t batch_number_;
  const SlotWaits waits_;
  std::function<void()> meanwhile_;
  int rank_ = 0;
  Board& own_;
  std::uint32_t next_block_ = 0;
  bool took_route_ = true;
};

}  // namespace hora
