#include "engine/engine.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>

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
                                              [this](const Key& key) { return parked_.caller_of(key); })),
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
  for (const Handle* const handle : waits)
    if (const Key* const key = parked_.key_of(handle)) exchange_.wait_for(*key);
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

void Engine::park(Submission submission) {
  if (process_sets_.find(submission.request.key.process_set) == nullptr) {
    submission.handle->fail(Error(ErrorKind::kMismatch, "the process set was removed"));
    return;
  }
  // Parked first: the root may ask at once where the call was made.
  if (const Request* const request = parked_.add(std::move(submission))) exchange_.submit(*request);
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

bool Engine::caller_waits() const {
  return waiting_ > 0 || leaving_;
}

Rest Engine::rest() {
  if (!transport_->flushed() || exchange_.has_errors()) return {Duration::zero()};
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

}  // namespace hora
