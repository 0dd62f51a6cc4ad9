#include "transport/shm/slots.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/thread.h"

namespace hora {

Slots::Slots(const HostMemory& memory, SlotLedger& ledger, std::span<const int> local_ranks, Members members,
             std::uint64_t batch_number, const SlotWaits& waits)
    : memory_(memory),
      ledger_(ledger),
      local_ranks_(local_ranks),
      members_(std::move(members)),
      batch_number_(batch_number),
      waits_(waits),
      own_(memory.board(memory.rank())) {
  while (local(rank_) != memory.rank()) ++rank_;
  ledger_.freed.resize(static_cast<std::size_t>(memory.size()));
}

/// Frees everything up to the end of this batch.
Slots::~Slots() {
  own_.freed.value.store((batch_number_ + 1) << kBlockBits, std::memory_order_release);
}

std::uint32_t Slots::take_blocks(std::size_t count) {
  const std::uint32_t first = next_block_;
  if (count >= kMostBlocks - first)
    raise(ErrorKind::kSessionFailed, "a batch of more than {} blocks", kMostBlocks);
  next_block_ += static_cast<std::uint32_t>(count);
  return first;
}

std::span<std::byte> Slots::open(std::uint32_t block) {
  SlotLedger::Use& use = ledger_.slots[slot_number(block)];
  await_readers(use);
  use = {ticket(block), members_};
  return memory_.slot(memory_.rank(), slot_number(block));
}

void Slots::publish(std::uint32_t block) {
  own_.filled.value.store(ticket(block), std::memory_order_release);
}

void Slots::publish_reduced(std::uint32_t block) {
  own_.reduced.value.store(ticket(block), std::memory_order_release);
}

std::span<const std::byte> Slots::await(int peer, std::uint32_t block) {
  await_count(memory_.board(local(peer)).filled.value, ticket(block));
  has_come_to_this_batch(peer);
  return slot(peer, block);
}

std::span<const std::byte> Slots::await_reduced(int peer, std::uint32_t block) {
  await_count(memory_.board(local(peer)).reduced.value, ticket(block));
  return slot(peer, block);
}

std::span<std::byte> Slots::slot(int peer, std::uint32_t block) const {
  return memory_.slot(local(peer), slot_number(block));
}

std::byte& Slots::remark(int peer, std::uint32_t block) const {
  return memory_.remark(local(peer), slot_number(block));
}

void Slots::free_through(std::uint32_t block) {
  own_.freed.value.store(ticket(block), std::memory_order_release);
}

void Slots::exchange_notes(std::span<const std::byte> own, std::span<std::byte> all) {
  const std::uint32_t block = take_blocks(1);
  const std::size_t number = static_cast<std::size_t>((batch_number_ + block) % Board::kNotes);
  SlotLedger::Use& use = ledger_.notes[number];
  await_readers(use);
  use = {ticket(block), members_};
  Note& note = own_.notes[number];
  std::memcpy(note.payload.data(), own.data(), own.size());
  note.ticket.store(ticket(block), std::memory_order_release);
  for (int peer = 0; peer < size(); ++peer) {
    std::byte* const to = all.data() + static_cast<std::size_t>(peer) * own.size();
    if (peer == rank_) {
      std::memcpy(to, own.data(), own.size());
      continue;
    }
    const Note& theirs = memory_.board(local(peer)).notes[number];
    await_count(theirs.ticket, ticket(block));
    std::memcpy(to, theirs.payload.data(), own.size());
    has_come_to_this_batch(peer);
  }
  free_through(block);
}

void Slots::await_readers(SlotLedger::Use& use) {
  if (use.readers == nullptr) return;
  for (const int reader : *use.readers) {
    const int peer = local_ranks_[static_cast<std::size_t>(reader)];
    std::uint64_t& freed = ledger_.freed[static_cast<std::size_t>(peer)];
    if (peer == memory_.rank() || freed >= use.ticket) continue;
    const std::atomic<std::uint64_t>& count = memory_.board(peer).freed.value;
    await_count(count, use.ticket);
    freed = count.load(std::memory_order_acquire);
  }
  use.readers = nullptr;
}

void Slots::await_count(const std::atomic<std::uint64_t>& count, std::uint64_t at_least) const {
  for (int spin = 0; count.load(std::memory_order_acquire) < at_least; ++spin) {
    if (spin < waits_.spins) {
      relax_core();
    } else {
      if (meanwhile_) meanwhile_();
      waits_.while_waiting();
    }
  }
}

/// It has left all earlier batches behind.
void Slots::has_come_to_this_batch(int member) {
  std::uint64_t& freed = ledger_.freed[static_cast<std::size_t>(local(member))];
  freed = std::max(freed, batch_number_ << kBlockBits);
}

}  // namespace hora
