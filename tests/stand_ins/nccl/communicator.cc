#include "stand_ins/nccl/communicator.h"

#include <fmt/format.h>

#include <cstring>

#include "stand_ins/cuda/symbols.h"
#include "stand_ins/nccl/report.h"

namespace hora::fake_nccl {

using nccl::Result;

Communicator::Communicator(std::shared_ptr<Rendezvous> meeting, int rank, int device, bool blocking)
    : meeting_(std::move(meeting)), rank_(rank), device_(device), blocking_(blocking) {
  progress.sent.resize(static_cast<std::size_t>(size()));
  progress.received.resize(static_cast<std::size_t>(size()));
  fake_cuda::cuDevicePrimaryCtxRetain(&context_, device_);
  begin_progress();
}

Communicator::~Communicator() {
  join_launcher();
}

void Communicator::release_context() {
  fake_cuda::cuDevicePrimaryCtxRelease_v2(device_);
}

std::string Communicator::text() const {
  return fmt::format("rank {} of {} (device {})", rank_, size(), device_);
}

void Communicator::begin_progress() {
  ready_at_ = {};
  if (!blocking_) polls_to_come_ = options().polls_in_progress;
}

bool Communicator::delay_is_over() {
  const Time now = std::chrono::steady_clock::now();
  if (ready_at_ == Time{}) ready_at_ = now + delay(rank_, delays_++);
  return now >= ready_at_;
}

Result Communicator::poll(bool by_user) {
  const std::lock_guard lock(mutex_);
  if (error_ != Result::kSuccess) return error_;
  if (polls_to_come_ > 0) {
    if (by_user) --polls_to_come_;
    return Result::kInProgress;
  }
  if (phase_ == Phase::kJoining) {
    if (!meeting_->everyone_joined() || !delay_is_over()) return Result::kInProgress;
    phase_ = Phase::kReady;
    error_ = result_of_joining();
    return error_;
  }
  if (phase_ == Phase::kFinalizing) {
    if (has_pending_work() || !everyone_finalizes() || !delay_is_over()) return Result::kInProgress;
    phase_ = Phase::kFinalized;
  }
  return launching_ ? Result::kInProgress : Result::kSuccess;
}

void Communicator::set_error(Result error) {
  const std::lock_guard lock(mutex_);
  if (error_ == Result::kSuccess) error_ = error;
}

Result Communicator::wait_until_ready(std::chrono::milliseconds timeout) {
  const Time deadline = std::chrono::steady_clock::now() + timeout;
  Result result = poll(false);
  while (result == Result::kInProgress && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    result = poll(false);
  }
  return result;
}

/// A rank on the same GPU as another is told so, as with NCCL; for the others it is a peer that fails.
Result Communicator::result_of_joining() const {
  Result result = Result::kSuccess;
  for (int first = 0; first < size(); ++first) {
    for (int second = first + 1; second < size(); ++second) {
      const RankState& a = meeting_->rank(first);
      const RankState& b = meeting_->rank(second);
      if (a.host != b.host || std::strcmp(a.bus_id, b.bus_id) != 0) continue;
      if (first == rank_ || second == rank_)
        return failed(Result::kInvalidUsage,
                      fmt::format("Duplicate GPU detected : rank {} and rank {} both on "
                                  "CUDA device {}",
                                  first, second, a.bus_id));
      result = failed(Result::kRemoteError, fmt::format("rank {} failed to initialize", first));
    }
  }
  return result;
}

bool Communicator::everyone_finalizes() const {
  for (int peer = 0; peer < size(); ++peer) {
    if (meeting_->rank(peer).presence.load() < Presence::kFinalized) return false;
  }
  return true;
}

void Communicator::launch_later(std::function<void()> launch) {
  join_launcher();
  const std::lock_guard lock(mutex_);
  begin_progress();
  launching_ = true;
  const auto wait = delay(rank_, delays_++);
  launcher_ = std::thread([this, wait, launch = std::move(launch)] {
    std::this_thread::sleep_for(wait);
    launch();
    const std::lock_guard lock(mutex_);
    launching_ = false;
  });
}

void Communicator::join_launcher() {
  std::thread launcher;
  {
    const std::lock_guard lock(mutex_);
    launcher.swap(launcher_);
  }
  if (launcher.joinable()) launcher.join();
}

void Communicator::start_finalizing() {
  leave(Presence::kFinalized);
  const std::lock_guard lock(mutex_);
  begin_progress();
  phase_ = Phase::kFinalizing;
}

bool Communicator::is_finalizing() {
  const std::lock_guard lock(mutex_);
  return phase_ == Phase::kFinalizing || phase_ == Phase::kFinalized;
}

void Communicator::check_launching_thread() {
  const std::lock_guard lock(mutex_);
  const auto here = std::this_thread::get_id();
  if (launching_thread_ == std::thread::id()) launching_thread_ = here;
  if (launching_thread_ != here && options().check_rules)
    end_process(
        fmt::format("{} is launched on from two threads; all launches of a communicator must come from "
                    "one",
                    text()));
}

Result check_ready(Communicator& communicator, const char* caller) {
  const Result state = communicator.poll(false);
  if (state != Result::kInProgress) return state;
  count(&Counts::uses_in_progress);
  return failed(Result::kInvalidArgument,
                fmt::format("{}: {} is used before the previous operation returned ncclSuccess", caller,
                            communicator.text()));
}

}  // namespace hora::fake_nccl
