#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/placement.h"
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

/// How the ranks of a group that is spread over hosts reach each other, where those of each host share
/// memory.
struct Hosts {
  const Placement& placement;
  Slots* slots;                  ///< of those on this host; null where this rank is the only one
  std::size_t most_block_bytes;  ///< what fits into a slot on every host
};

/// An ordered subset of ranks with a tag of its own on a transport; what collectives talk through. Ranks here
/// count within the group. While anything waits, `while_waiting` runs again and again: the engine passes its
/// control plane, so that agreement goes on inside every collective, and throws when the session has failed.
class Group {
 public:
  using Pump = std::function<void()>;

  /// `rank` is this rank's number among `ranks`.
  Group(Transport& transport, RankList ranks, int rank, int tag, std::uint64_t piece_bytes,
        Pump while_waiting);
  /// Tells that all its ranks share memory, or those of each host do.
  void use(Slots& slots) { slots_ = &slots; }
  void use(const Hosts& hosts) { hosts_ = &hosts; }
  /// Some ranks of the job under the same tag; they have nothing in common but that.
  [[nodiscard]] Group subset(RankList ranks, int rank) const;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_->size()); }
  /// The number of this rank, or of another one, in the job.
  [[nodiscard]] int job_rank() const { return job_rank(rank_); }
  [[nodiscard]] int job_rank(int rank) const { return (*ranks_)[static_cast<std::size_t>(rank)]; }
  /// How its ranks hand each other data through the memory that they share, or null.
  [[nodiscard]] Slots* slots() const { return slots_; }
  /// How its ranks are spread over hosts on which they share memory; null where that does not help.
  [[nodiscard]] const Hosts* hosts() const { return hosts_; }
  /// The group's number for a rank of the job, or -1; its ranks have to be in ascending order.
  [[nodiscard]] int index_of(int job_rank) const;

  [[nodiscard]] Transfer send(int peer, std::span<const std::byte> data) const;
  [[nodiscard]] Transfer recv(int peer, std::span<std::byte> data) const;
  [[nodiscard]] bool done(Transfer& transfer) const;
  void wait(Transfer& transfer) const;
  /// What a member does while it waits for several things.
  void pump() const { while_waiting_(); }

 private:
  template <typename Byte, typename Start>
  Transfer cut(std::span<Byte> data, Start start) const;

  Transport& transport_;
  RankList ranks_;
  int rank_;
  int tag_;
  std::uint64_t piece_bytes_;
  Pump while_waiting_;
  Slots* slots_ = nullptr;
  const Hosts* hosts_ = nullptr;
};

}  // namespace hora
