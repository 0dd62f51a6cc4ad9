#include "backends/nccl/communicator.h"

#include <thread>
#include <utility>

#include "base/error.h"

namespace hora::nccl {

Communicator::Communicator(std::shared_ptr<const Nccl> nccl, std::shared_ptr<cuda::Device> device,
                           const UniqueId& id, int rank, int size, const CommunicatorOptions& options,
                           const Meanwhile& meanwhile)
    : nccl_(std::move(nccl)), device_(std::move(device)), options_(options) {
  Config config;
  config.blocking = options_.is_blocking ? 1 : 0;
  const Result result = nccl_->comm_init(&comm_, size, id, rank, &config);
  // NCCL_COMM_BLOCKING overrides the configuration, so success comes where in-progress is expected, too.
  try {
    settle(result, "ncclCommInitRankConfig", meanwhile);
  } catch (...) {
    abort();
    throw;
  }
}

void Communicator::settle(Result result, const char* what, const Meanwhile& meanwhile) const {
  if (result != Result::kSuccess && result != Result::kInProgress) fail(result, what);
  if (comm_ == nullptr) return;
  const TimePoint deadline = Clock::now() + options_.limit;
  for (;;) {
    Result state = Result::kInProgress;
    const Result asked = nccl_->comm_async_error(comm_, &state);
    if (asked != Result::kSuccess) fail(asked, "ncclCommGetAsyncError");
    if (state == Result::kSuccess) return;
    if (state != Result::kInProgress) fail(state, what);
    if (Clock::now() > deadline) {
      raise(ErrorKind::kSessionFailed, "{}: NCCL was not through with it after {:.0f} s", what,
            std::chrono::duration<double>(options_.limit).count());
    }
    meanwhile();
    std::this_thread::yield();
  }
}

void Communicator::expect(Result result, const char* what) const {
  if (result != Result::kSuccess && result != Result::kInProgress) fail(result, what);
}

void Communicator::fail(Result result, const char* what) const {
  const char* const detail = comm_ != nullptr ? nccl_->last_error(comm_) : nullptr;
  raise(ErrorKind::kSessionFailed, "{} failed: {}{}{}", what, nccl_->error_string(result),
        detail != nullptr && *detail != '\0' ? ": " : "", detail != nullptr ? detail : "");
}

void Communicator::check_state() const {
  Result state = Result::kSuccess;
  const Result asked = nccl_->comm_async_error(comm_, &state);
  if (asked != Result::kSuccess) fail(asked, "ncclCommGetAsyncError");
  if (state != Result::kSuccess && state != Result::kInProgress) fail(state, "a collective");
}

void Communicator::finish(const Meanwhile& meanwhile) {
  if (comm_ == nullptr) return;
  settle(nccl_->comm_finalize(comm_), "ncclCommFinalize", meanwhile);
  static_cast<void>(nccl_->comm_destroy(std::exchange(comm_, nullptr)));
}

void Communicator::abort(std::shared_ptr<void> needs) {
  const Comm comm = std::exchange(comm_, nullptr);
  if (comm == nullptr) return;
  options_.stragglers->start("ncclCommAbort", options_.abort_limit,
                             [nccl = nccl_, device = device_, comm, needs = std::move(needs)]() mutable {
                               const cuda::DeviceScope scope(*device);
                               static_cast<void>(nccl->comm_abort(comm));
                               needs.reset();
                             });
}

}  // namespace hora::nccl
