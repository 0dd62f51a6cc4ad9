#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backends/nccl/nccl_api.h"
#include "stand_ins/nccl/control.h"
#include "stand_ins/nccl/rendezvous.h"

namespace hora::fake_nccl {

/// What work on a communicator has done. Work runs in the order of launching, so it needs no lock.
struct Progress {
  struct Line {
    std::uint64_t messages = 0;
    std::uint64_t pieces = 0;
  };
  std::uint64_t collectives = 0;
  std::uint64_t pieces = 0;
  std::vector<Line> sent;      // by peer
  std::vector<Line> received;  // by peer
};

/// One rank's communicator.
///
/// Lock map: `phase_` to `launcher_` are guarded by `mutex_`; the atomics and the constants need none;
/// `progress` belongs to the work whose turn it is.
class Communicator {
 public:
  /// The context of `device` must be current. Retains the device's primary context.
  Communicator(std::shared_ptr<Rendezvous> meeting, int rank, int device, bool blocking);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  int rank() const { return rank_; }
  int size() const { return meeting_->size(); }
  int device() const { return device_; }
  bool blocking() const { return blocking_; }
  cuda::Context context() const { return context_; }
  Rendezvous& meeting() const { return *meeting_; }
  /// "rank 1 of 4 (device 1)".
  std::string text() const;

  /// What ncclCommGetAsyncError says. Only polls of the user count as those that are told kInProgress
  /// whatever the truth is.
  nccl::Result poll(bool by_user);
  /// The first error stays.
  void set_error(nccl::Result error);

  /// Repeats poll until it is not kInProgress.
  nccl::Result wait_until_ready(std::chrono::milliseconds timeout);

  /// Runs `launch` on a thread of its own some time later; until then the communicator is in progress.
  void launch_later(std::function<void()> launch);
  /// Waits for the thread of launch_later.
  void join_launcher();
  /// Once, at the end. Not left to the destructor, which may run on a thread of the driver.
  void release_context();

  void start_finalizing();
  bool is_finalizing();
  void leave(Presence how) { meeting_->leave(rank_, how); }

  /// Ends the process if another thread than before launches.
  void check_launching_thread();

  std::uint64_t next_operation() { return operations_.fetch_add(1); }
  std::uint64_t next_launch() { return launches_.fetch_add(1); }
  bool is_turn_of(std::uint64_t launch) const { return finished_launches_.load() == launch; }
  void finish_launch() { finished_launches_.fetch_add(1); }
  bool has_pending_work() const { return finished_launches_.load() != launches_.load(); }

  Progress progress;

 private:
  enum class Phase { kJoining, kReady, kFinalizing, kFinalized };

  nccl::Result result_of_joining() const;
  bool everyone_finalizes() const;
  bool delay_is_over();
  void begin_progress();

  const std::shared_ptr<Rendezvous> meeting_;
  const int rank_;
  const int device_;
  const bool blocking_;
  cuda::Context context_ = nullptr;

  std::atomic<std::uint64_t> operations_{0};
  std::atomic<std::uint64_t> launches_{0};
  std::atomic<std::uint64_t> finished_launches_{0};

  std::mutex mutex_;
  Phase phase_ = Phase::kJoining;
  nccl::Result error_ = nccl::Result::kSuccess;
  std::uint32_t polls_to_come_ = 0;
  std::uint64_t delays_ = 0;
  Time ready_at_{};  // when the present delay ends; zero while it has not begun
  bool launching_ = false;
  std::thread::id launching_thread_;
  std::thread launcher_;
};

/// The communicator of a handle. Null for a null handle; a handle that has ended ends the process.
std::shared_ptr<Communicator> find(nccl::Comm handle, const char* caller);

/// kSuccess if it may be called now, otherwise the error to return.
nccl::Result check_ready(Communicator& communicator, const char* caller);

}  // namespace hora::fake_nccl
