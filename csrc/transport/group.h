#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "transport/transport.h"

namespace hora {

class Slots;

/// A send or receive of any size under way; long ones are cut into pieces.
class Transfer {
 public:
  void add(Ticket ticket);

 private:
  friend class Group;
  Ticket first_;
  std::vector<Ticket> rest_;
};

/// An ordered subset of ranks with a tag of its own on a transport; what collectives talk through. Ranks here
/// count within the group. While anything waits, `while_waiting` runs again and again: the engine passes its
/// control plane, so that agreement goes on inside every collective, and throws when the session has failed.
class Group {
 public:
  using Pump = std::function<void()>;

  /// `slots` is null unless all ranks share memory.
  Group(Transport& transport, std::shared_ptr<const std::vector<int>> ranks, int tag,
        std::uint64_t piece_bytes, Pump while_waiting, Slots* slots = nullptr);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_->size()); }
  /// How its ranks hand each other data through the memory that they share, or null.
  [[nodiscard]] Slots* slots() const { return slots_; }
  /// The group's number for a rank of the job, or -1.
  [[nodiscard]] int index_of(int job_rank) const;

  [[nodiscard]] Transfer send(int peer, std::span<const std::byte> data) const;
  [[nodiscard]] Transfer recv(int peer, std::span<std::byte> data) const;
  [[nodiscard]] bool done(Transfer& transfer) const;
  void wait(Transfer& transfer) const;

 private:
  template <typename Byte, typename Start>
  Transfer cut(std::span<Byte> data, Start start) const;

  Transport& transport_;
  std::shared_ptr<const std::vector<int>> ranks_;
  int rank_;
  int tag_;
  std::uint64_t piece_bytes_;
  Pump while_waiting_;
  Slots* slots_;
};

}  // namespace hora
