#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <thread>
#include <utility>

#include "base/log.h"
#include "engine/engine.h"
#include "ops/table.h"
#include "transport/registry.h"

namespace hora {
namespace {

constexpr auto kFailureFlushDeadline = std::chrono::milliseconds(500);

}  // namespace

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
  std::ranges::move(parked_.take_all(), std::back_inserter(unfinished));
  for (const Submission& submission : unfinished) {
    const Request& request = submission.request;
    const std::string text =
        fmt::format("{} {}: {}", name(request.signature.op), request.key.to_string(), reason.what());
    submission.handle->fail(Error(reason.kind(), text));
  }
}

}  // namespace hora
