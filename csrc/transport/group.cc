#include "transport/group.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace hora {

void Transfer::add(Ticket ticket) {
  if (first_.value == 0) {
    first_ = ticket;
  } else if (ticket.value != 0) {
    rest_.push_back(ticket);
  }
}

Group::Group(Transport& transport, RankList ranks, int rank, int tag, std::uint64_t piece_bytes,
             Pump while_waiting)
    : transport_(transport),
      ranks_(std::move(ranks)),
      rank_(rank),
      tag_(tag),
      piece_bytes_(piece_bytes),
      while_waiting_(std::move(while_waiting)) {
  assert((*ranks_)[static_cast<std::size_t>(rank)] == transport.topology().rank() && piece_bytes_ > 0);
}

Group Group::subset(RankList ranks, int rank) const {
  return {transport_, std::move(ranks), rank, tag_, piece_bytes_, while_waiting_};
}

int Group::index_of(int job_rank) const {
  const auto found = std::ranges::lower_bound(*ranks_, job_rank);
  return found != ranks_->end() && *found == job_rank ? static_cast<int>(found - ranks_->begin()) : -1;
}

template <typename Byte, typename Start>
Transfer Group::cut(std::span<Byte> data, Start start) const {
  Transfer transfer;
  while (!data.empty()) {
    const auto piece = data.first(std::min<std::uint64_t>(data.size(), piece_bytes_));
    transfer.add(start(piece));
    data = data.subspan(piece.size());
  }
  return transfer;
}

Transfer Group::send(int peer, std::span<const std::byte> data) const {
  const int rank = (*ranks_)[static_cast<std::size_t>(peer)];
  return cut(data, [&](auto piece) { return transport_.send(rank, tag_, piece); });
}

Transfer Group::recv(int peer, std::span<std::byte> data) const {
  const int rank = (*ranks_)[static_cast<std::size_t>(peer)];
  return cut(data, [&](auto piece) { return transport_.recv(rank, tag_, piece); });
}

bool Group::done(Transfer& transfer) const {
  while (transfer.first_.value != 0) {
    if (!transport_.done(transfer.first_)) return false;
    transfer.first_ = {};
    if (transfer.rest_.empty()) return true;
    transfer.first_ = transfer.rest_.back();
    transfer.rest_.pop_back();
  }
  return true;
}

void Group::wait(Transfer& transfer) const {
  while (!done(transfer)) while_waiting_();
}

}  // namespace hora
