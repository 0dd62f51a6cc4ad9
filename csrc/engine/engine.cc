#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <iterator>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "base/thread.h"
#include "engine/rest.h"
#include "ops/table.h"
#include "transport/registry.h"

namespace hora {
namespace {

// Children of a node among the ranks of its host, and as many among the leaders of other hosts.
constexpr int kTreeArity = 16;
constexpr auto kLeavePause = std::chrono::milliseconds(100);
constexpr auto kGiveUpLook = std::chrono::milliseconds(1);
constexpr auto kFailureFlushDeadline = std::chrono::milliseconds(500);
// How often this rank looks whether others are still there, while nothing else happens.
constexpr auto kLookAround = std::chrono::milliseconds(10);
// A waiting thread gives the role back after so much silence: then the answer takes long, and it may sleep.
constexpr auto kHelpingTime = std::chrono::milliseconds(2);
// How long the background thread stays away when another has the role.
constexpr auto kLentPause = std::chrono::milliseconds(1);
constexpr int kRoleAttempts = 100;
// How often a device is looked at that is not through with something.
constexpr auto kDeviceLook = std::chrono::milliseconds(20);
// So often a thread that waits for another core looks before it yields its own, where ranks have a core each.
constexpr int kSpins = 1000;
// How long a batch that nobody waits for leaves the core alone when another rank is not as far.
constexpr auto kNapInBatch = std::chrono::microseconds(50);
// A look at the clock costs as much as some spins.
constexpr int kLooksPerClock = 64;

/// Inside a host with shared memory results do not depend on what is in a batch, but for Adasum.
std::uint64_t fusion_threshold(const Settings& settings, Transport& transport) {
  const bool may_depend = transport.topology().host_count() > 1 || transport.host_memory() == nullptr;
  return settings.deterministic && may_depend ? 0 : settings.fusion_threshold;
}

NegotiatorOptions negotiator_options(const Settings& settings, Transport& transport, RouteChooser& chooser,
                                     std::function<std::string(const Key&)> caller_of) {
  return {
      {fusion_threshold(settings, transport), settings.piece_bytes, fusable_ops(), settings.deterministic},
      settings.cache_capacity,
      settings.joins_like_horovod,
      [&chooser](const Batch& batch) {
        return batch.signature().device == DeviceKind::kHost ? chooser.choose(batch) : Route();
      },
      settings.stalls,
      std::move(caller_of)};
}

/// This rank's place among those with which it exchanges messages.
Tree join_tree(Transport& transport) {
  Tree tree(transport.topology(), kTreeArity);
  std::vector<int> neighbours = tree.children();
  if (!tree.is_root()) neighbours.push_back(*tree.parent());
  transport.expect_from(neighbours);
  return tree;
}

}  // namespace

Engine::Engine(std::unique_ptr<Transport> transport, const Settings& settings)
    : transport_(std::move(transport)),
      faults_(settings.faults, topology().rank(), topology().size()),
      backends_(make_backends(settings, faults_)),
      route_chooser_(settings),
      exchange_(*transport_,
                Negotiator(join_tree(*transport_),
                           negotiator_options(settings, *transport_, route_chooser_,
                                              [this](const Key& key) { return caller_of(key); })),
                counters_, faults_),
      process_sets_(topology().size()),
      stalls_(
          settings.stalls, settings.main_thread_stack,
          [this](int rank) { return Tree(topology(), rank, kTreeArity).parent(); }, topology().rank(),
          exchange_, process_sets_),
      losses_(*transport_),
      reach_(*transport_, settings.start_timeout),
      leave_limit_(settings.leave_limit),
      spins_(usable_cores() >= topology().local_size() ? kSpins : 0),
      thread_([this] { run(); }) {}

Engine::~Engine() {
  leave();
}

void Engine::prepare(Submission& submission, int members) {
  if (submission.ready.place.device < 0) return;
  for (const auto& backend : backends_) backend->prepare(submission, members);
  if (submission.request.signature.device != DeviceKind::kHost) uses_device_ = true;
}

void Engine::require_working() const {
  if (has_failed_) submissions_.require_open();
}

void Engine::submit(Submission submission) {
  submissions_.push(std::move(submission));
  announce_soon();
}

void Engine::let_go() {
  submissions_.let_go();
  announce_soon();
}

void Engine::refuse(Submission submission) {
  submissions_.push_refusal(std::move(submission));
  announce_soon();
}

/// A background thread that looks by itself now and then is not woken: that would take a core from the
/// caller's computation, and a caller who waits does the work himself.
void Engine::announce_soon() {
  if (transport_->notices_arrivals()) transport_->nudge();
}

bool Engine::wait_until(Handle& handle, TimePoint deadline) {
  if (handle.done()) return true;
  ++waiting_;
  if (handle.device() != DeviceKind::kHost) submissions_.push_wait(handle);
  help(handle, deadline);
  const bool done = handle.wait_until(deadline);
  --waiting_;
  return done;
}

void Engine::attend() {
  if (waiting_++ == 0) transport_->wake();
}

void Engine::help(const Handle& handle, TimePoint deadline) {
  if (uses_device_) return transport_->wake();
  std::unique_lock role(role_, std::try_to_lock);
  for (int attempt = 0; !role && attempt < kRoleAttempts && !handle.done(); ++attempt) {
    std::this_thread::yield();
    role.try_lock();
  }
  if (role) {
    const StandardFloatMode mode;
    transport_->stay_up();
    try {
      last_work_ = Clock::now();
      for (int idle = 0; !handle.done() && !is_over();) {
        // What a turn leaves behind it, such as what became ready meanwhile, is no news: another turn
        // follows.
        if ((idle == 0 || has_news()) && turn(false)) {
          idle = 0;
          continue;
        }
        if (++idle % kLooksPerClock == 0 || idle > spins_) {
          const TimePoint now = Clock::now();
          if (now > deadline || now - last_work_ > kHelpingTime) break;
        }
        if (!exchange_.agreed.empty() && is_for_background_thread(exchange_.agreed.front())) break;
        idle > spins_ ? std::this_thread::yield() : relax_core();
      }
    } catch (const std::exception& error) {
      broken_ = exchange_.failure.value_or(Failure{topology().rank(), error.what()});
    }
    if (!has_work_left()) return;
    role.unlock();
  }
  transport_->wake();
}

/// Cheap enough to ask at every spin; false only if a turn would find nothing to do.
bool Engine::has_news() const {
  return submissions_.has_queued() || transport_->has_arrivals() || !exchange_.agreed.empty() || leaving_;
}

bool Engine::is_over() const {
  return ended_ || broken_ || (exchange_.departure && exchange_.agreed.empty());
}

bool Engine::has_work_left() {
  return is_over() || !parked_.empty() || !exchange_.agreed.empty() || !transport_->flushed();
}

std::shared_ptr<std::byte[]> Engine::allocate(std::size_t bytes) const {
  submissions_.require_open();
  const HostMemory* const memory = transport_->host_memory();
  return memory != nullptr ? memory->allocate(bytes) : std::make_shared_for_overwrite<std::byte[]>(bytes);
}

void Engine::leave(const std::string& cause) {
  std::call_once(left_, [&] {
    cause_to_leave_ = cause;
    leaving_ = true;
  });
  transport_->wake();
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

void Engine::give_up(const std::string& reason, TimePoint deadline) {
  if (gives_up_) return;
  reason_to_give_up_ = reason;
  gives_up_ = true;
  transport_->wake();
  while (!is_through_ && Clock::now() < deadline) std::this_thread::sleep_for(kGiveUpLook);
}

void Engine::run() {
  name_this_thread("hora-engine");
  sleep_precisely();
  const StandardFloatMode mode;
  try {
    run_until_departure();
    const std::lock_guard role(role_);
    depart(*exchange_.departure);
  } catch (const std::exception& error) {
    const std::lock_guard role(role_);
    if (!broken_) broken_ = exchange_.failure.value_or(Failure{topology().rank(), error.what()});
    fail(*broken_);
  }
  is_through_ = true;
}

void Engine::run_until_departure() {
  for (;;) {
    Rest next{kLentPause};
    if (std::unique_lock role(role_, std::try_to_lock); role) {
      if (broken_) raise(ErrorKind::kSessionFailed, "{}", broken_->reason);
      if (is_over()) return;
      if (turn(true)) continue;
      look_around();
      next = rest();
    }
    take(next);
  }
}

void Engine::take(const Rest& rest) {
  if (rest.time == Duration::zero()) {
    std::this_thread::yield();
  } else if (rest.ends_early) {
    transport_->sleep(rest.time);
  } else {
    transport_->nap(rest.time);
  }
}

bool Engine::is_for_background_thread(const Batch& batch) const {
  return batch.signature().device != DeviceKind::kHost && batch.error.empty();
}

/// Takes what is there and runs one batch; says whether there was anything to do.
bool Engine::turn(bool is_background_thread) {
  bool worked = advance(exchange_.agreed.empty());
  if (!exchange_.agreed.empty() &&
      (is_background_thread || !is_for_background_thread(exchange_.agreed.front()))) {
    Batch batch = std::move(exchange_.agreed.front());
    exchange_.agreed.pop_front();
    faults_.reach(FaultPoint::kAfterAgreement);
    execute(std::move(batch));
    worked = true;
    if (std::exchange(runs_on_device_, false)) leave_deadline_ = Clock::now() + leave_limit_;
  }
  if (worked) last_work_ = Clock::now();
  return worked;
}

bool Engine::advance(bool engine_is_free) {
  bool worked = false;
  // Taken first, so that what is waited for has been taken after that.
  const std::vector<const Handle*> waits =
      uses_device_ ? submissions_.take_waits() : std::vector<const Handle*>();
  if (submissions_.take(taken_)) {
    for (Submission& submission : taken_) park(std::move(submission));
    last_call_ = Clock::now();
    worked = true;
  }
  note_waits(waits);
  if (leaving_ && !leave_announced_) {
    leave_announced_ = true;
    leave_deadline_ = Clock::now() + leave_limit_;
    exchange_.leave(cause_to_leave_);
  }
  if (gives_up_) raise(ErrorKind::kSessionFailed, "{}", reason_to_give_up_);
  worked |= exchange_.step(engine_is_free, unfinished());
  if (exchange_.failure) raise(ErrorKind::kSessionFailed, "{}", exchange_.failure->reason);
  if (leave_announced_ && !exchange_.departure && !runs_on_device_ && Clock::now() > leave_deadline_) {
    raise(ErrorKind::kSessionFailed, "the other ranks did not answer within {:.0f} s",
          std::chrono::duration<double>(leave_limit_).count());
  }
  return worked;
}

void Engine::note_waits(const std::vector<const Handle*>& waits) {
  for (const Handle* const handle : waits) {
    const auto call = std::ranges::find_if(
        parked_, [&](const auto& parked) { return parked.second.handle.get() == handle; });
    if (call != parked_.end()) exchange_.wait_for(call->first);
  }
}

std::size_t Engine::unfinished() {
  if (!uses_device_) return 0;
  std::size_t sum = 0;
  for (const auto& backend : backends_) {
    sum += backend->unfinished(Clock::now());
    for (const std::int32_t process_set : backend->take_finished()) {
      if (!reports_for(process_set)) continue;
      --to_report_;
      exchange_.report({process_set, 1});
    }
  }
  return sum;
}

/// The root does not see the devices of sets without it.
bool Engine::reports_for(std::int32_t process_set) const {
  const RankList ranks = process_sets_.find(process_set);
  return ranks != nullptr && ranks->front() == topology().rank() && topology().rank() != 0;
}

std::string Engine::caller_of(const Key& key) const {
  const auto call = parked_.find(key);
  return call == parked_.end() || call->second.caller == nullptr ? std::string() : *call->second.caller;
}

void Engine::park(Submission submission) {
  Key key = submission.request.key;
  if (process_sets_.find(key.process_set) == nullptr) {
    submission.handle->fail(Error(ErrorKind::kMismatch, "the process set was removed"));
    return;
  }
  if (parked_.contains(key)) {
    deferred_[std::move(key)].push_back(std::move(submission));
    return;
  }
  // Parked first: the root may ask at once where the call was made.
  const auto call = parked_.emplace(std::move(key), std::move(submission)).first;
  exchange_.submit(call->second.request);
}

/// Only a rank that has joined takes part without having called.
void Engine::check_parked(const Batch& batch) const {
  if (batch.process_set() == kGlobalSet && parked_.contains(Key::join())) return;
  for (const BatchEntry& entry : batch.entries) {
    if (parked_.contains(entry.key)) continue;
    raise(ErrorKind::kSessionFailed, "a batch names {}, which this rank has not submitted",
          entry.key.to_string());
  }
}

std::vector<Submission> Engine::unpark(const Batch& batch) {
  check_parked(batch);
  std::vector<Submission> calls;
  for (const BatchEntry& entry : batch.entries) {
    auto node = parked_.extract(entry.key);
    if (!node.empty()) {
      calls.push_back(std::move(node.mapped()));
    } else {
      Submission& absent = calls.emplace_back();
      absent.is_absent = true;
      absent.handle = std::make_shared<Handle>(entry.key);
    }
    if (auto behind = deferred_.extract(entry.key); !behind.empty()) {
      for (Submission& submission : behind.mapped()) park(std::move(submission));
    }
  }
  return calls;
}

void Engine::execute(Batch batch) {
  std::vector<Submission> calls = unpark(batch);
  if (!batch.error.empty()) {
    ++counters_.errors;
    for (Submission& call : calls) call.handle->fail(Error(ErrorKind::kMismatch, batch.error));
    return;
  }
  try {
    run_batch(batch, calls);
    apply_set_change(batch);
    faults_.reach(FaultPoint::kBeforeCompletion);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMismatch) {
      keep_for_end(calls);
      throw;
    }
    ++counters_.errors;
    for (Submission& call : calls) call.handle->fail(error);
    return;
  } catch (...) {
    keep_for_end(calls);
    throw;
  }
  if (batch.signature().op == OpKind::kJoin) submissions_.restart_numbering(kGlobalSet);
  ++counters_.batches;
  for (std::size_t call = 0; call < calls.size(); ++call) {
    counters_.tensors += batch.entries[call].signature->tensors.size();
    counters_.bytes += calls[call].request.bytes;
    calls[call].handle->succeed(std::move(calls[call].results), batch.value);
  }
}

/// The end of the session fails these with the rest. Their keys may have been announced anew meanwhile.
void Engine::keep_for_end(std::vector<Submission>& calls) {
  for (Submission& call : calls) deferred_[call.request.key].push_back(std::move(call));
}

void Engine::run_batch(const Batch& batch, std::vector<Submission>& calls) {
  const AtBatch at(doing_, batch);
  const auto backend =
      std::ranges::find_if(backends_, [&](const auto& each) { return each->accepts(batch); });
  if (backend == backends_.end()) {
    raise(ErrorKind::kSessionFailed, "no backend for {}", name(batch.signature().device));
  }
  bool has_waited = false;
  const auto come_to_middle = [&] {
    if (!std::exchange(has_waited, true)) faults_.reach(FaultPoint::kInBatch);
  };
  const Group::Pump pump = [&] {
    come_to_middle();
    if (!advance(false)) wait_a_little();
  };
  const BatchGroups groups(
      reach_, placement_of(batch.process_set()), batch,
      {caller_waits() ? spins_ : 0, pump, [this] { static_cast<void>(advance(false)); }});
  runs_on_device_ = batch.signature().device != DeviceKind::kHost;
  if (runs_on_device_) uses_device_ = true;
  if (runs_on_device_ && reports_for(batch.process_set())) ++to_report_;
  const TimePoint start = Clock::now();
  (*backend)->run(batch, calls, groups.all());
  come_to_middle();
  if (topology().rank() != 0 || runs_on_device_ || !groups.took_route()) return;
  if (const std::string news = route_chooser_.learn(batch, Clock::now() - start); !news.empty())
    log_info(news);
}

const Placement& Engine::placement_of(std::int32_t process_set) {
  auto known = placements_.find(process_set);
  if (known == placements_.end())
    known = placements_.emplace(process_set, place(topology(), process_sets_.find(process_set))).first;
  return known->second;
}

/// In the middle of a batch. The core belongs to the caller's computation while nobody waits for the batch,
/// unless its data would stand still meanwhile.
void Engine::wait_a_little() {
  look_around();
  if (caller_waits() || transport_->moves_only_when_called()) {
    std::this_thread::yield();
  } else {
    transport_->nap(kNapInBatch);
  }
}

/// While nothing happens.
void Engine::look_around() {
  const TimePoint now = Clock::now();
  doing_.waits = !parked_.empty();
  if (now - last_look_ < kLookAround) return;
  last_look_ = now;
  look_for_losses(now);
  doing_.on_device = first_on_device();
  if (doing_.batch != nullptr && doing_.begun == TimePoint()) doing_.begun = now;
  stalls_.look(now, doing_);
}

std::optional<OnDevice> Engine::first_on_device() const {
  if (!uses_device_) return std::nullopt;
  for (const auto& backend : backends_) {
    if (auto first = backend->first_unfinished()) return first;
  }
  return std::nullopt;
}

void Engine::look_for_losses(TimePoint now) {
  losses_.look(now);
  const Loss* const lost = exchange_.departure ? lost_in_batch(now) : losses_.first(now);
  if (lost == nullptr) return;
  exchange_.failure = Failure{lost->rank, lost->how};
  raise(ErrorKind::kSessionFailed, "{}", lost->how);
}

/// Ranks that have departed do not wait for ever for those that still work.
const Loss* Engine::lost_in_batch(TimePoint now) const {
  if (doing_.batch == nullptr) return nullptr;
  const RankList members = process_sets_.find(doing_.batch->process_set());
  return members == nullptr ? nullptr : losses_.first_of(*members, now);
}

bool Engine::caller_waits() const {
  return waiting_ > 0 || leaving_;
}

void Engine::apply_set_change(const Batch& batch) {
  const auto process_set = static_cast<std::int32_t>(batch.value);
  if (batch.signature().op == OpKind::kAddProcessSet) process_sets_.add(process_set, batch.signature().ranks);
  if (batch.signature().op != OpKind::kRemoveProcessSet) return;
  process_sets_.remove(process_set);
  for (const auto& backend : backends_) backend->forget(process_set, [this] { keep_in_touch(); });
  placements_.erase(process_set);
  std::erase_if(parked_, [&](const auto& parked) {
    const auto& [key, submission] = parked;
    if (key.process_set != process_set) return false;
    submission.handle->fail(
        Error(ErrorKind::kMismatch, fmt::format("{} {}: its process set was removed",
                                                name(submission.request.signature.op), key.to_string())));
    return true;
  });
  std::erase_if(deferred_, [&](const auto& behind) {
    if (behind.first.process_set != process_set) return false;
    for (const Submission& submission : behind.second)
      submission.handle->fail(Error(ErrorKind::kMismatch, "the process set was removed"));
    return true;
  });
}

Rest Engine::rest() {
  if (!transport_->flushed()) return {Duration::zero()};
  Rest rest = choose_rest({.quiet = Clock::now() - last_work_,
                           .caller_waits = caller_waits(),
                           .answer_due = !parked_.empty(),
                           .since_call = Clock::now() - last_call_,
                           .notices_arrivals = transport_->notices_arrivals(),
                           .moves_only_when_called = transport_->moves_only_when_called()});
  if (uses_device_) watch_device(rest);
  // The others may not answer, and then the end must not be late.
  if (leaving_) rest.time = std::min<Duration>(rest.time, kLeavePause);
  rest.time = std::min(rest.time, stalls_.pause(doing_));
  if (losses_.has_any()) rest.time = std::min<Duration>(rest.time, kLookAround);
  return rest;
}

/// A device tells when it is through only where something waits for that. Otherwise it is looked at now and
/// then, for deadlines and because it tells nothing after a fault.
void Engine::watch_device(Rest& rest) {
  if (unfinished() == 0) return;
  rest.time = std::min<Duration>(rest.time, kDeviceLook);
  if (!exchange_.holds_back() && to_report_ == 0) return;
  for (const auto& backend : backends_) backend->ring_at_next_end([this] { transport_->wake(); });
}

/// While a backend waits for its device.
void Engine::keep_in_touch() {
  static_cast<void>(exchange_.step(false));
  if (exchange_.failure) raise(ErrorKind::kSessionFailed, "{}", exchange_.failure->reason);
  look_around();
}

void Engine::depart(const Departure& departure) {
  for (const auto& backend : backends_) backend->close([this] { keep_in_touch(); });
  const bool is_own = departure.rank == topology().rank();
  failed_elsewhere_ = !is_own && !departure.reason.empty();
  end(Error(ErrorKind::kSessionFailed,
            is_own ? std::string("hora has been shut down; call init() again")
                   : fmt::format("rank {} left the job: {}", departure.rank,
                                 departure.reason.empty() ? "it was shut down" : departure.reason)));
  faults_.reach(FaultPoint::kInDeparture);
  exchange_.say_goodbye();
  wait_for_departures();
}

/// A rank whose session breaks meanwhile says so instead of goodbye. Those that have heard that all have
/// departed may end before this one hears it; but not its neighbours in the tree.
void Engine::wait_for_departures() {
  const TimePoint deadline = Clock::now() + leave_limit_;
  while (!exchange_.all_have_departed() || !transport_->flushed()) {
    const TimePoint now = Clock::now();
    if (now > deadline) return log_warning("not all ranks have ended their part of the job in time");
    losses_.look(now);
    if (const Loss* const lost = losses_.first_of(exchange_.neighbours(), now)) {
      if (exchange_.all_have_departed()) return;
      exchange_.failure = {lost->rank, lost->how};
    }
    if (const auto& failure = exchange_.failure) {
      log_warning(fmt::format("the job has not ended in order: rank {}: {}", failure->rank, failure->reason));
      raise(ErrorKind::kSessionFailed, "{}", failure->reason);
    }
    if (!exchange_.step(false)) std::this_thread::yield();
  }
}

void Engine::fail(const Failure& failure) {
  const bool is_own = failure.rank == topology().rank();
  // Who gives up has said why.
  if (is_own && !gives_up_) log_error(fmt::format("this rank cannot go on: {}", failure.reason));
  abandon_mpi();
  try {
    exchange_.fail(failure);
    const TimePoint deadline = Clock::now() + kFailureFlushDeadline;
    while (!transport_->flushed() && Clock::now() < deadline) std::this_thread::yield();
  } catch (const std::exception& error) {
    log_error(fmt::format("the other ranks could not be told: {}", error.what()));
  }
  const Error reason(
      ErrorKind::kSessionFailed,
      is_own ? failure.reason : fmt::format("rank {} failed: {}", failure.rank, failure.reason));
  has_failed_ = true;
  failed_elsewhere_ = !is_own;
  // First what was launched, so that nobody who learns of the failure takes that for complete.
  for (const auto& backend : backends_) backend->fail(reason);
  end(reason);
}

void Engine::end(const Error& reason) {
  ended_ = true;
  submissions_.close(reason);
  std::vector<Submission> unfinished;
  static_cast<void>(submissions_.take(unfinished));
  for (auto& [key, submission] : parked_) unfinished.push_back(std::move(submission));
  for (auto& [key, behind] : deferred_) std::ranges::move(behind, std::back_inserter(unfinished));
  parked_.clear();
  deferred_.clear();
  for (const Submission& submission : unfinished) {
    const Request& request = submission.request;
    const std::string text =
        fmt::format("{} {}: {}", name(request.signature.op), request.key.to_string(), reason.what());
    submission.handle->fail(Error(reason.kind(), text));
  }
}

}  // namespace hora
