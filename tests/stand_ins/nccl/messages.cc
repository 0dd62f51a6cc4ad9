#include "stand_ins/nccl/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "stand_ins/fake_cuda.h"

namespace hora::fake_nccl {
namespace {

std::size_t bytes_of(const Operation& operation) {
  return operation.description.count * size_of(operation.description.type);
}

std::uint64_t pieces_of(const Operation& operation) {
  return (bytes_of(operation) + kChannelSlotBytes - 1) / kChannelSlotBytes;
}

}  // namespace

Messages::Messages(Communicator& communicator, const std::vector<Operation>& operations)
    : communicator_(&communicator) {
  for (const Operation& operation : operations) {
    if (!is_collective(operation.description.kind)) line_of(operation).operations.push_back(operation);
  }
}

Messages::Line& Messages::line_of(const Operation& operation) {
  const bool sends = operation.description.kind == Kind::kSend;
  const auto found = std::ranges::find_if(
      lines_, [&](const Line& line) { return line.sends == sends && line.peer == operation.peer; });
  if (found != lines_.end()) return *found;
  Line& line = lines_.emplace_back();
  line.sends = sends;
  line.peer = operation.peer;
  return line;
}

Channel& Messages::channel(const Line& line) const {
  const int rank = communicator_->rank();
  return line.sends ? communicator_->meeting().channel(rank, line.peer)
                    : communicator_->meeting().channel(line.peer, rank);
}

Progress::Line& Messages::progress(const Line& line) const {
  auto& lines = line.sends ? communicator_->progress.sent : communicator_->progress.received;
  return lines[static_cast<std::size_t>(line.peer)];
}

bool Messages::advance() {
  bool progressed = true;
  while (progressed) {
    progressed = false;
    for (Line& line : lines_) {
      while (!line.complete() && step(line)) progressed = true;
    }
  }
  return std::ranges::all_of(lines_, &Line::complete);
}

bool Messages::step(Line& line) {
  if (!line.begun) {
    if (!line.start.may_begin(*communicator_, line.operation())) return false;
    begin(line);
    return true;
  }
  if (!line.compared) return compare(line);
  if (line.moved < pieces_of(line.operation())) return move_piece(line);
  const std::uint64_t end = progress(line).pieces + line.moved;
  if (line.sends && channel(line).drained.load() < end) return false;
  finish(line);
  return true;
}

void Messages::begin(Line& line) {
  touch_buffers(line.operation(), *communicator_);
  const std::uint64_t number = progress(line).messages;
  Channel& shared = channel(line);
  // Two descriptions are enough: neither side is more than one message ahead of the other.
  auto& descriptions = line.sends ? shared.send_descriptions : shared.receive_descriptions;
  descriptions[number % 2] = line.operation().description;
  (line.sends ? shared.sends : shared.receives).store(number + 1);
  line.begun = true;
}

bool Messages::compare(Line& line) {
  const std::uint64_t number = progress(line).messages;
  Channel& shared = channel(line);
  const RankState& peer = communicator_->meeting().rank(line.peer);
  // Presence and collectives are read first: a peer that has begun this message may go on to them.
  const Presence presence = peer.presence.load();
  const bool in_collective = peer.collectives.load() > communicator_->progress.collectives;
  if ((line.sends ? shared.receives : shared.sends).load() <= number) {
    check_peer_stays(*communicator_, line.peer, presence, line.operation());
    if (in_collective)
      end_for_difference(*communicator_, line.peer, text(line.operation().description),
                         text(peer.descriptions[communicator_->progress.collectives % 2]));
    return false;
  }
  const Description& theirs =
      (line.sends ? shared.receive_descriptions : shared.send_descriptions)[number % 2];
  if (!agree(line.operation().description, theirs))
    end_for_difference(*communicator_, line.peer, text(line.operation().description), text(theirs));
  line.compared = true;
  return true;
}

bool Messages::move_piece(Line& line) {
  Channel& shared = channel(line);
  const std::uint64_t number = progress(line).pieces + line.moved;
  if (line.sends && shared.drained.load() + kSlots <= number) return false;
  if (!line.sends && shared.filled.load() <= number) return false;
  copy_piece(line, number);
  (line.sends ? shared.filled : shared.drained).store(number + 1);
  ++line.moved;
  return true;
}

void Messages::copy_piece(const Line& line, std::uint64_t number) const {
  const int rank = communicator_->rank();
  const Operation& operation = line.operation();
  const std::size_t first = line.moved * kChannelSlotBytes;
  const std::size_t bytes = std::min(kChannelSlotBytes, bytes_of(operation) - first);
  if (line.sends) {
    std::byte* const slot = communicator_->meeting().channel_slot(rank, line.peer, number);
    std::memcpy(slot, fake_cuda::fake_cuda_memory(operation.from + first, bytes), bytes);
  } else {
    const std::byte* const slot = communicator_->meeting().channel_slot(line.peer, rank, number);
    std::memcpy(fake_cuda::fake_cuda_memory(operation.to + first, bytes), slot, bytes);
  }
}

void Messages::finish(Line& line) {
  touch_buffers(line.operation(), *communicator_);
  progress(line).messages += 1;
  progress(line).pieces += line.moved;
  line.done += 1;
  line.start = {};
  line.begun = false;
  line.compared = false;
  line.moved = 0;
}

}  // namespace hora::fake_nccl
