#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <mutex>
#include <numeric>
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
// How long an orderly end may wait for others.
constexpr auto kLeaveDeadline = std::chrono::seconds(10);
constexpr auto kFailureFlushDeadline = std::chrono::seconds(1);
constexpr int kWorldTag = 1;
// A waiting thread gives the role back after so much silence: then the answer takes long, and it may sleep.
constexpr auto kHelpingTime = std::chrono::milliseconds(2);
// How long the background thread stays away when another has the role.
constexpr auto kLentPause = std::chrono::milliseconds(1);
constexpr int kRoleAttempts = 100;

std::shared_ptr<const std::vector<int>> ranks_up_to(int size) {
  auto ranks = std::make_shared<std::vector<int>>(static_cast<std::size_t>(size));
  std::iota(ranks->begin(), ranks->end(), 0);
  return ranks;
}

NegotiatorOptions negotiator_options(const Settings& settings) {
  return {{settings.fusion_threshold, settings.piece_bytes, fusable_ops()}, settings.cache_capacity};
}

}  // namespace

Engine::Engine(std::unique_ptr<Transport> transport, const Settings& settings)
    : transport_(std::move(transport)),
      backends_(make_backends()),
      all_ranks_(ranks_up_to(topology().size())),
      exchange_(*transport_, Negotiator(Tree(topology(), kTreeArity), negotiator_options(settings)),
                counters_),
      thread_([this] { run(); }) {}

Engine::~Engine() {
  leave();
}

void Engine::submit(Submission submission) {
  submissions_.push(std::move(submission));
  announce_soon();
}

void Engine::refuse(Submission submission) {
  submissions_.push_refusal(std::move(submission));
  announce_soon();
}

/// A background thread that looks by itself every other millisecond is not woken: that would take a core from
/// the caller's computation, and a caller who waits does the work himself.
void Engine::announce_soon() {
  if (transport_->notices_arrivals()) transport_->wake();
}

bool Engine::wait_until(Handle& handle, TimePoint deadline) {
  if (handle.done()) return true;
  ++waiting_;
  help(handle, deadline);
  const bool done = handle.wait_until(deadline);
  --waiting_;
  return done;
}

void Engine::help(const Handle& handle, TimePoint deadline) {
  std::unique_lock role(role_, std::try_to_lock);
  for (int attempt = 0; !role && attempt < kRoleAttempts && !handle.done(); ++attempt) {
    std::this_thread::yield();
    role.try_lock();
  }
  if (role) {
    const StandardFloatMode mode;
    try {
      last_work_ = Clock::now();
      while (!handle.done() && !is_over()) {
        if (turn()) continue;
        const TimePoint now = Clock::now();
        if (now > deadline || now - last_work_ > kHelpingTime) break;
        std::this_thread::yield();
      }
    } catch (const std::exception& error) {
      broken_ = exchange_.failure.value_or(Failure{topology().rank(), error.what()});
    }
    if (!has_work_left()) return;
    role.unlock();
  }
  transport_->wake();
}

bool Engine::is_over() const {
  return ended_ || broken_ || (exchange_.departure && exchange_.agreed.empty());
}

bool Engine::has_work_left() {
  return is_over() || !parked_.empty() || !exchange_.agreed.empty() || !transport_->flushed();
}

void Engine::leave() {
  leaving_ = true;
  transport_->wake();
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
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
}

void Engine::run_until_departure() {
  for (;;) {
    Duration rest = kLentPause;
    if (std::unique_lock role(role_, std::try_to_lock); role) {
      if (broken_) raise(ErrorKind::kSessionFailed, "{}", broken_->reason);
      if (is_over()) return;
      if (turn()) continue;
      rest = pause();
    }
    if (rest == Duration::zero()) {
      std::this_thread::yield();
    } else {
      transport_->sleep(rest);
    }
  }
}

/// Takes what is there and runs one batch; says whether there was anything to do.
bool Engine::turn() {
  bool worked = advance(exchange_.agreed.empty());
  if (!exchange_.agreed.empty()) {
    Batch batch = std::move(exchange_.agreed.front());
    exchange_.agreed.pop_front();
    execute(std::move(batch));
    worked = true;
  }
  if (worked) last_work_ = Clock::now();
  return worked;
}

bool Engine::advance(bool engine_is_free) {
  bool worked = false;
  if (submissions_.take(taken_)) {
    for (Submission& submission : taken_) park(std::move(submission));
    worked = true;
  }
  if (leaving_ && !leave_announced_) {
    leave_announced_ = true;
    leave_deadline_ = Clock::now() + kLeaveDeadline;
    exchange_.leave("it was shut down");
  }
  worked |= exchange_.step(engine_is_free);
  if (exchange_.failure) raise(ErrorKind::kSessionFailed, "{}", exchange_.failure->reason);
  if (leave_announced_ && Clock::now() > leave_deadline_) {
    raise(ErrorKind::kSessionFailed, "the other ranks did not answer within {} s", kLeaveDeadline.count());
  }
  return worked;
}

void Engine::park(Submission submission) {
  Key key = submission.request.key;
  if (parked_.contains(key)) {
    deferred_[std::move(key)].push_back(std::move(submission));
    return;
  }
  exchange_.submit(submission.request);
  parked_.emplace(std::move(key), std::move(submission));
}

std::vector<Submission> Engine::unpark(const Batch& batch) {
  std::vector<Submission> tensors;
  for (const BatchEntry& entry : batch.entries) {
    auto node = parked_.extract(entry.key);
    if (node.empty()) {
      raise(ErrorKind::kSessionFailed, "a batch names {}, which this rank has not submitted",
            entry.key.to_string());
    }
    tensors.push_back(std::move(node.mapped()));
    if (auto behind = deferred_.extract(entry.key); !behind.empty()) {
      for (Submission& submission : behind.mapped()) park(std::move(submission));
    }
  }
  return tensors;
}

void Engine::execute(Batch batch) {
  std::vector<Submission> tensors = unpark(batch);
  if (!batch.error.empty()) {
    ++counters_.errors;
    for (Submission& tensor : tensors) tensor.handle->fail(Error(ErrorKind::kMismatch, batch.error));
    return;
  }
  const auto backend =
      std::ranges::find_if(backends_, [&](const auto& each) { return each->accepts(batch); });
  if (backend == backends_.end())
    raise(ErrorKind::kSessionFailed, "no backend for {}", name(batch.signature().device));

  const Group group(*transport_, all_ranks_, kWorldTag, batch.piece_bytes, [this] {
    if (!advance(false)) std::this_thread::yield();
  });
  std::vector<Submission*> pointers;
  for (Submission& tensor : tensors) {
    pointers.push_back(&tensor);
    counters_.bytes += tensor.request.bytes;
  }
  try {
    (*backend)->run(batch, pointers, group);
  } catch (...) {
    // The end of the session fails these with the rest. Their keys may have been announced anew meanwhile.
    for (Submission& tensor : tensors) deferred_[tensor.request.key].push_back(std::move(tensor));
    throw;
  }
  ++counters_.batches;
  counters_.tensors += tensors.size();
  for (Submission& tensor : tensors) tensor.handle->succeed(std::move(tensor.result));
}

Duration Engine::pause() {
  // MPI moves a message only while it is called.
  if (!transport_->flushed()) return Duration::zero();
  return choose_rest({.quiet = Clock::now() - last_work_,
                      .caller_waits = waiting_ > 0 || leaving_,
                      .answer_due = !parked_.empty(),
                      .notices_arrivals = transport_->notices_arrivals()});
}

void Engine::depart(const Departure& departure) {
  const bool is_own = departure.rank == topology().rank();
  end(Error(ErrorKind::kSessionFailed,
            is_own ? std::string("hora has been shut down; call init() again")
                   : fmt::format("rank {} left the job: {}", departure.rank, departure.reason)));
  exchange_.say_goodbye();
  const TimePoint deadline = Clock::now() + kLeaveDeadline;
  // A neighbour whose session breaks meanwhile says so instead of goodbye.
  const auto is_over = [this] {
    return (exchange_.failure || exchange_.neighbours_gone()) && transport_->flushed();
  };
  while (!is_over() && Clock::now() < deadline) {
    if (!exchange_.step(false)) std::this_thread::yield();
  }
}

void Engine::fail(const Failure& failure) {
  const bool is_own = failure.rank == topology().rank();
  if (is_own) log_error(fmt::format("this rank cannot go on: {}", failure.reason));
  abandon_mpi();
  try {
    exchange_.fail(failure);
    const TimePoint deadline = Clock::now() + kFailureFlushDeadline;
    while (!transport_->flushed() && Clock::now() < deadline) std::this_thread::yield();
  } catch (const std::exception& error) {
    log_error(fmt::format("the other ranks could not be told: {}", error.what()));
  }
  end(Error(ErrorKind::kSessionFailed,
            is_own ? failure.reason : fmt::format("rank {} failed: {}", failure.rank, failure.reason)));
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
