#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backends/nccl/nccl_api.h"
#include "stand_ins/nccl/operation.h"

namespace hora::fake_nccl {

/// Data pass through slots of these sizes. Each side has two, so that one is filled while the other is read.
inline constexpr std::size_t kSlots = 2;
inline constexpr std::size_t kSlotBytes = std::size_t{1} << 20;
inline constexpr std::size_t kChannelSlotBytes = std::size_t{1} << 18;

enum class Presence : std::uint32_t { kAbsent, kJoining, kPresent, kFinalized, kDestroyed, kAborted };

/// What one rank shows all others. Counters only grow; what they count may be read by who has seen them.
struct alignas(64) RankState {
  std::atomic<Presence> presence;
  std::uint64_t host;
  char bus_id[32];
  std::atomic<std::uint64_t> collectives;  ///< begun; number n is described in descriptions[n % 2]
  Description descriptions[2];
  std::atomic<std::uint64_t> published;  ///< pieces of its data put into its slots
  std::atomic<std::uint64_t> consumed;   ///< pieces for which it needs no slot of any rank any more
};

/// The messages from one rank to another.
struct alignas(64) Channel {
  std::atomic<std::uint64_t> sends;     ///< begun by the sender
  std::atomic<std::uint64_t> receives;  ///< begun by the receiver
  Description send_descriptions[2];
  Description receive_descriptions[2];
  std::atomic<std::uint64_t> filled;   ///< pieces
  std::atomic<std::uint64_t> drained;  ///< pieces
};

/// Where the ranks of a communicator meet, threads and processes alike: a file in memory without a name,
/// which whoever made the unique id keeps open for the others to find among its descriptors. So nothing is
/// left of it when processes are killed. It is closed there once a rank of that process has seen that all
/// have come, or when all have gone. There are no locks in it and every wait is a poll, so a rank that is
/// killed blocks nobody. A new file is all zeros, which is the state at the beginning.
///
/// Ranks of one process share one mapping, so that ThreadSanitizer sees how they are ordered.
class Rendezvous {
 public:
  static nccl::UniqueId new_id();
  /// Null if the id is not of new_id or the file is gone.
  static std::shared_ptr<Rendezvous> open(const nccl::UniqueId& id, int size);

  Rendezvous(std::string name, int size, std::byte* memory, std::size_t bytes);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;
  ~Rendezvous();

  /// False if this rank has joined before, or if the sizes of the ranks differ.
  bool join(int rank, std::uint64_t host, const char* bus_id);
  bool everyone_joined() const;
  void leave(int rank, Presence how);

  RankState& rank(int rank) const;
  Channel& channel(int from, int to) const;
  std::byte* slot(int rank, std::uint64_t piece) const;
  std::byte* channel_slot(int from, int to, std::uint64_t piece) const;

  int size() const { return size_; }
  /// Equal on all ranks.
  std::uint64_t number() const { return number_; }

 private:
  struct Header;

  Header& header() const;
  void keep_no_more() const;

  const std::string name_;
  const int size_;
  const std::uint64_t number_;
  std::byte* const memory_;
  const std::size_t bytes_;
};

}  // namespace hora::fake_nccl
