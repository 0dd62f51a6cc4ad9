#include "stand_ins/nccl/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "stand_ins/fake_cuda.h"
#include "stand_ins/nccl/reduction.h"

namespace hora::fake_nccl {
namespace {

using fake_cuda::fake_cuda_memory;

std::byte* memory(const std::byte* device_pointer, std::size_t bytes) {
  return static_cast<std::byte*>(fake_cuda_memory(device_pointer, bytes));
}

/// Sources in the order in which a ring adds them for the rank where the sum ends: its next rank first,
/// itself last.
std::vector<const std::byte*> in_ring_order(const std::vector<const std::byte*>& sources, std::size_t last) {
  std::vector<const std::byte*> ordered(sources);
  const auto first = static_cast<std::ptrdiff_t>((last + 1) % sources.size());
  std::rotate(ordered.begin(), ordered.begin() + first, ordered.end());
  return ordered;
}

}  // namespace

Collective::Collective(Communicator& communicator, const Operation& operation)
    : communicator_(&communicator), operation_(operation), element_(size_of(operation.description.type)) {
  const auto size = static_cast<std::size_t>(communicator.size());
  const std::size_t parts = operation.description.kind == Kind::kReduceScatter ? size : 1;
  elements_ = kSlotBytes / parts / element_;
  pieces_ = (operation.description.count + elements_ - 1) / elements_;
}

std::size_t Collective::count_of(std::uint64_t piece) const {
  return std::min<std::size_t>(elements_, operation_.description.count - first_of(piece));
}

bool Collective::advance() {
  if (!begun_) {
    if (!start_.may_begin(communicator(), operation_)) return false;
    begin();
  }
  if (!compared_ && !everyone_came()) return false;
  while (unpacked_ < pieces_) {
    const bool packed = packed_ < pieces_ && pack_next();
    const bool unpacked = unpacked_ < packed_ && unpack_next();
    if (!packed && !unpacked) return false;
  }
  touch_buffers(operation_, communicator());
  communicator().progress.collectives += 1;
  communicator().progress.pieces += pieces_;
  return true;
}

void Collective::begin() {
  touch_buffers(operation_, communicator());
  RankState& own = communicator().meeting().rank(communicator().rank());
  // Two descriptions are enough: no rank is more than one collective ahead of another.
  own.descriptions[communicator().progress.collectives % 2] = operation_.description;
  own.collectives.store(communicator().progress.collectives + 1);
  begun_ = true;
}

bool Collective::everyone_came() {
  const std::uint64_t number = communicator().progress.collectives;
  for (int peer = 0; peer < communicator().size(); ++peer) {
    RankState& other = communicator().meeting().rank(peer);
    // Presence is read first: a rank that has come may leave afterwards.
    const Presence presence = other.presence.load();
    if (other.collectives.load() <= number) {
      check_peer_stays(communicator(), peer, presence, operation_);
      look_for_deadlock(peer);
      return false;
    }
    const Description& theirs = other.descriptions[number % 2];
    if (!agree(operation_.description, theirs))
      end_for_difference(communicator(), peer,
                         text(operation_.description) + fmt::format(" as collective {}", number),
                         text(theirs));
  }
  compared_ = true;
  return true;
}

/// The peer has not come. If it has begun a send or receive that needs this rank, neither goes on: messages
/// that it began before its collective would be complete. The peer's messages are read before its
/// collectives, for it may go on to messages as soon as it has come.
void Collective::look_for_deadlock(int peer) const {
  const Rendezvous& meeting = communicator().meeting();
  const Progress& progress = communicator().progress;
  const int rank = communicator().rank();
  const auto line = static_cast<std::size_t>(peer);
  const bool sends = meeting.channel(peer, rank).sends.load() > progress.received[line].messages;
  const bool receives = meeting.channel(rank, peer).receives.load() > progress.sent[line].messages;
  if (!sends && !receives) return;
  if (meeting.rank(peer).collectives.load() > progress.collectives) return;
  end_for_difference(communicator(), peer, text(operation_.description),
                     fmt::format("a {} rank {}", sends ? "send to" : "receive from", rank));
}

bool Collective::pack_next() {
  const Rendezvous& meeting = communicator().meeting();
  const std::uint64_t number = communicator().progress.pieces + packed_;
  for (int peer = 0; peer < communicator().size(); ++peer) {
    if (meeting.rank(peer).consumed.load() + kSlots <= number) return false;
  }
  pack(packed_++);
  meeting.rank(communicator().rank()).published.store(number + 1);
  return true;
}

bool Collective::unpack_next() {
  const Rendezvous& meeting = communicator().meeting();
  const std::uint64_t number = communicator().progress.pieces + unpacked_;
  for (int peer = 0; peer < communicator().size(); ++peer) {
    if (meeting.rank(peer).published.load() <= number) return false;
  }
  unpack(unpacked_++);
  meeting.rank(communicator().rank()).consumed.store(number + 1);
  return true;
}

void Collective::pack(std::uint64_t piece) const {
  const int rank = communicator().rank();
  std::byte* const slot = communicator().meeting().slot(rank, communicator().progress.pieces + piece);
  const Description& call = operation_.description;
  const std::size_t first = first_of(piece) * element_;
  const std::size_t bytes = count_of(piece) * element_;
  if (call.kind == Kind::kBroadcast && rank != call.root) return;
  if (call.kind != Kind::kReduceScatter) {
    std::memcpy(slot, memory(operation_.from + first, bytes), bytes);
    return;
  }
  for (std::size_t part = 0; part < static_cast<std::size_t>(communicator().size()); ++part) {
    const std::byte* const from = operation_.from + part * call.count * element_ + first;
    std::memcpy(slot + part * elements_ * element_, memory(from, bytes), bytes);
  }
}

void Collective::unpack(std::uint64_t piece) const {
  const Rendezvous& meeting = communicator().meeting();
  const std::uint64_t number = communicator().progress.pieces + piece;
  const Description& call = operation_.description;
  const std::size_t first = first_of(piece) * element_;
  const std::size_t bytes = count_of(piece) * element_;
  if (call.kind == Kind::kBroadcast) {
    std::memcpy(memory(operation_.to + first, bytes), meeting.slot(call.root, number), bytes);
  } else if (call.kind == Kind::kAllGather) {
    for (int peer = 0; peer < communicator().size(); ++peer) {
      std::byte* const to = operation_.to + static_cast<std::size_t>(peer) * call.count * element_ + first;
      std::memcpy(memory(to, bytes), meeting.slot(peer, number), bytes);
    }
  } else {
    unpack_reduced(number, first_of(piece), count_of(piece), memory(operation_.to + first, bytes));
  }
}

/// A ring reduces the part that belongs to a rank so that the rank adds last. An allreduce cuts the tensor
/// into one part for each rank.
void Collective::unpack_reduced(std::uint64_t piece, std::size_t first, std::size_t count,
                                std::byte* to) const {
  const Description& call = operation_.description;
  const auto size = static_cast<std::size_t>(communicator().size());
  const bool scatters = call.kind == Kind::kReduceScatter;
  const auto own = static_cast<std::size_t>(communicator().rank());
  std::vector<const std::byte*> sources;
  for (int peer = 0; peer < communicator().size(); ++peer)
    sources.push_back(communicator().meeting().slot(peer, piece) +
                      (scatters ? own * elements_ * element_ : 0));

  const std::size_t part_length = scatters ? call.count : (call.count + size - 1) / size;
  for (std::size_t at = first; at < first + count;) {
    const std::size_t part = at / part_length;
    const std::size_t end = std::min((part + 1) * part_length, first + count);
    const std::size_t offset = (at - first) * element_;
    std::vector<const std::byte*> ordered = in_ring_order(sources, scatters ? own : part);
    for (const std::byte*& source : ordered) source += offset;
    reduce(call.type, call.op, ordered, to + offset, end - at);
    at = end;
  }
}

}  // namespace hora::fake_nccl
