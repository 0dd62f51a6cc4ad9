#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "backends/backend.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/faults.h"
#include "collectives/select.h"
#include "core/submission.h"
#include "engine/batch_groups.h"
#include "engine/counters.h"
#include "engine/exchange.h"
#include "engine/loss_watch.h"
#include "engine/parked_calls.h"
#include "engine/process_sets.h"
#include "engine/rest.h"
#include "engine/stall_watch.h"
#include "engine/submissions.h"
#include "transport/transport.h"

namespace hora {

/// Takes submissions, agrees with the other ranks, runs what was agreed, in order, and completes handles. It
/// runs no foreign code and takes no foreign lock.
///
/// Who waits, works: one thread at a time has the engine's role and takes its turns. It belongs to the
/// background thread of the session, which looks after it from time to time, but a thread that waits for a
/// handle takes it meanwhile, so that a blocking call costs no hand-over between threads. Only the background
/// thread ends the session, and only it runs batches on devices, since NCCL wants to be called by one thread:
/// a session that uses a device does not lend the role.
///
/// The control plane also goes on inside every wait of a collective (`advance`), where it receives, merges,
/// orders and relays, but never runs a batch.
///
/// Lock map: submissions_, process_sets_ and counters_ are shared and guard themselves; waiting_, leaving_,
/// uses_device_, has_failed_, failed_elsewhere_, gives_up_ and is_through_ are atomics; joining thread_ ->
/// join_mutex_; sleep() and wake() of the transport may be called beside the role, sleep() by the background
/// thread only; all else -> role_.
class Engine {
 public:
  Engine(std::unique_ptr<Transport> transport, const Settings& settings);
  /// Leaves the job if `leave` was not called.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] const Topology& topology() const { return transport_->topology(); }
  [[nodiscard]] std::string_view transport_name() const { return transport_->name(); }
  [[nodiscard]] const Counters& counters() const { return counters_; }

  /// Looks at a call before it is submitted; throws what is wrong with it on this rank.
  void prepare(Submission& submission, int members);
  void submit(Submission submission);
  /// See Session::Together.
  void hold() { submissions_.hold(); }
  void let_go();
  /// Throws why the session has failed, if it has; that it was left in order is no failure.
  void require_working() const;
  /// Announces that this rank refused a call, so that the others get an error instead of waiting.
  void refuse(Submission submission);
  /// Makes a handle's name usable again.
  void release(const Handle& handle) { submissions_.release(handle.key()); }
  /// The ranks of a process set, or null when there is none of this id.
  [[nodiscard]] RankList process_set(std::int32_t id) const { return process_sets_.find(id); }
  /// Blocks until the handle is complete or the deadline has passed; says whether it is complete. A thread
  /// that runs a batch meanwhile finishes it first.
  [[nodiscard]] bool wait_until(Handle& handle, TimePoint deadline);
  /// See Session::Attention.
  void attend();
  void attend_no_more() { --waiting_; }

  /// See Session::allocate.
  [[nodiscard]] std::shared_ptr<std::byte[]> allocate(std::size_t bytes) const;

  /// Leaves the job: what was agreed before still runs, everything else fails, on all ranks. Blocks until the
  /// engine has ended, which it does within a deadline even if no other rank answers. `cause`: see
  /// Session::leave.
  void leave(const std::string& cause = "");
  /// Ends the session on all ranks, because this one cannot go on, and waits until they have been told or the
  /// deadline has passed. For a process that is about to end.
  void give_up(const std::string& reason, TimePoint deadline);
  [[nodiscard]] bool failed_elsewhere() const { return failed_elsewhere_; }
  /// In a forked child: closes what belongs to the parent.
  void close_in_child() { transport_->close_in_child(); }

 private:
  void announce_soon();
  void note_waits(const std::vector<const Handle*>& waits);
  void keep_in_touch();
  [[nodiscard]] std::size_t unfinished();
  [[nodiscard]] bool reports_for(std::int32_t process_set) const;
  [[nodiscard]] bool is_for_background_thread(const Batch& batch) const;
  void run();
  void run_until_departure();
  bool turn(bool is_background_thread);
  void help(const Handle& handle, TimePoint deadline);
  [[nodiscard]] bool has_news() const;
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] bool has_work_left();
  bool advance(bool engine_is_free);
  void park(Submission submission);
  void execute(Batch batch);
  void run_batch(const Batch& batch, std::vector<Submission>& calls);
  void apply_set_change(const Batch& batch);
  void wait_a_little();
  void look_around();
  void look_for_losses(TimePoint now);
  [[nodiscard]] std::optional<OnDevice> first_on_device() const;
  [[nodiscard]] bool caller_waits() const;
  [[nodiscard]] Rest rest();
  void watch_device(Rest& rest);
  void take(const Rest& rest);
  [[nodiscard]] const Placement& placement_of(std::int32_t process_set);
  void depart(const Departure& departure);
  void wait_for_departures();
  [[nodiscard]] const Loss* lost_in_batch(TimePoint now) const;
  void fail(const Failure& failure);
  void end(const Error& reason);

  const std::unique_ptr<Transport> transport_;
  Faults faults_;
  const std::vector<std::unique_ptr<Backend>> backends_;
  Counters counters_;
  RouteChooser route_chooser_;
  Exchange exchange_;
  Submissions submissions_;
  ProcessSets process_sets_;
  StallWatch stalls_;
  LossWatch losses_;
  Reach reach_;
  std::unordered_map<std::int32_t, Placement> placements_;  // of the process sets that this rank is in
  const Duration leave_limit_;
  const int spins_;
  std::atomic<int> waiting_{0};
  std::once_flag left_;
  std::atomic<bool> leaving_{false};
  std::atomic<bool> uses_device_{false};
  std::atomic<bool> has_failed_{false};
  std::atomic<bool> failed_elsewhere_{false};
  std::atomic<bool> gives_up_{false};
  std::atomic<bool> is_through_{false};
  std::string reason_to_give_up_;  // written before gives_up_
  std::string cause_to_leave_;     // written before leaving_
  std::mutex role_;
  TimePoint last_work_ = Clock::now();
  TimePoint last_call_;
  std::optional<Failure> broken_;  // found by a helping thread
  Doing doing_;
  TimePoint last_look_;
  bool ended_ = false;
  bool leave_announced_ = false;
  TimePoint leave_deadline_;
  std::size_t to_report_ = 0;    // batches on this device whose end the root wants to know
  bool runs_on_device_ = false;  // just now, with a deadline of its own
  std::vector<Submission> taken_;
  ParkedCalls parked_;
  std::mutex join_mutex_;
  std::thread thread_;  // last: starts when all else is ready
};

}  // namespace hora
