#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/event.h"
#include "base/process_watch.h"
#include "transport/shm/heap.h"
#include "transport/shm/layout.h"
#include "transport/shm/segment.h"
#include "transport/transport.h"

namespace hora {

struct HostMemoryOptions {
  bool wanted = true;                                  ///< the leader's answer counts
  std::string directory;                               ///< on a tmpfs; empty: anonymous memory
  std::size_t slot_bytes = 512 * 1024;                 ///< at most; many ranks get smaller ones
  std::size_t heap_bytes = std::size_t{32} << 30;      ///< address space for each rank, not memory
  Duration start_timeout = std::chrono::seconds(120);  ///< for all ranks to come together
  /// How a rank maps the file that it was handed; tests let ranks that are threads share one mapping, so that
  /// a race detector sees them touch the same memory.
  std::function<Segment(Descriptor file, std::size_t bytes)> open = Segment::open;
};

/// What a rank hands to the others of its host.
struct HostMember {
  Descriptor bell;     ///< an eventfd
  Descriptor process;  ///< see Watchable
};

/// The memory that the ranks of one host share, as one of them sees it, the bells of their sleeping threads,
/// and the watch for those whose process ends. Ranks are numbered within the host here.
class HostMemory {
 public:
  /// `kept` is what the process has to keep open to be watched.
  HostMemory(Segment segment, HostLayout layout, int rank, std::vector<HostMember> members, Descriptor kept);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(layout_.ranks); }
  [[nodiscard]] const HostLayout& layout() const { return layout_; }

  [[nodiscard]] Board& board(int rank) const { return at<Board>(layout_.board(index(rank))); }
  [[nodiscard]] Ring& ring(int from, int to) const { return at<Ring>(layout_.ring(index(from), index(to))); }
  [[nodiscard]] std::span<std::byte> slot(int rank, std::size_t number) const {
    return {data_ + layout_.slot(index(rank), number) + kPage, layout_.slot_bytes};
  }
  /// A byte for a remark about what is in the slot.
  [[nodiscard]] std::byte& remark(int rank, std::size_t number) const {
    return data_[layout_.slot(index(rank), number)];
  }

  /// Memory of this rank's heap that all ranks of the host can reach; it lives on after the session. Any
  /// thread. Throws Error(kStartup) with the bytes needed and free when there is not enough.
  [[nodiscard]] std::shared_ptr<std::byte[]> allocate(std::size_t bytes) const;
  /// Where memory from this rank's heap lies for all ranks; kElsewhere for any other.
  [[nodiscard]] std::int64_t offset_of(const std::byte* memory, std::size_t bytes) const;
  static constexpr std::int64_t kElsewhere = -1;
  /// Memory of a rank's heap, wherever that rank has mapped it. Throws Error(kSessionFailed) when it is not
  /// within the heap.
  [[nodiscard]] std::byte* memory_at(int rank, std::int64_t offset, std::size_t bytes) const;

  /// Wakes a rank that sleeps. Any thread.
  void ring_bell(int rank) const { ring_event(bells_[index(rank)].get()); }
  /// This rank's bell, for one who waits for it.
  [[nodiscard]] int bell() const { return bells_[index(rank_)].get(); }
  [[nodiscard]] ProcessWatch& watch() { return watch_; }
  /// In a forked child: closes what belongs to the parent.
  void close_in_child();

 private:
  template <typename T>
  [[nodiscard]] T& at(std::size_t offset) const {
    return *reinterpret_cast<T*>(data_ + offset);
  }
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  /// What outlives the session as long as memory of the heap is in use.
  struct Shared {
    Segment segment;
    Heap heap;
  };
  std::shared_ptr<Shared> shared_;
  std::byte* const data_;
  HostLayout layout_;
  int rank_;
  std::vector<Descriptor> bells_;  // by rank
  ProcessWatch watch_;             // of the others
  Descriptor kept_;
};

/// What came of connecting.
struct HostConnection {
  std::unique_ptr<HostMemory> memory;  ///< null: this host has no shared memory
  std::string reason;                  ///< why not
};

/// All ranks of a host make their shared memory, or learn alike that they have none: the leader makes a
/// segment and hands it to the others through a Unix socket, whose name it tells them over `transport`,
/// together with a secret, so that no other process gets it.
/// Throws only when `transport` fails.
[[nodiscard]] HostConnection connect_host(Transport& transport, const HostMemoryOptions& options);

}  // namespace hora
