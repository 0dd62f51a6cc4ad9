#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "backends/nccl/nccl_backend.h"
#include "base/error.h"
#include "base/log.h"

namespace hora::nccl {

using cuda::DeviceScope;

namespace {

// How long NCCL may be at giving up a communicator, where it may be at other calls longer.
constexpr Duration kAbortLimit = std::chrono::seconds(10);

}  // namespace

/// What the device may be at until the last communicator is aborted. Then it is given back, and never if one
/// cannot be.
struct NcclBackend::Needs {
  std::shared_ptr<cuda::Device> device;
  std::shared_ptr<void> batches;
  std::shared_ptr<Staging> staging;
  std::unique_ptr<cuda::PackKernels> kernels;

  ~Needs() {
    device->take_back();
    const DeviceScope scope(*device);
    kernels.reset();
  }
};

void NcclBackend::forget(std::int32_t process_set, const Meanwhile& meanwhile) {
  auto set = sets_.extract(process_set);
  if (set.empty()) return;
  const DeviceScope scope(*device_);
  wait_until_idle(meanwhile);
  set.mapped().communicator->finish(meanwhile);
}

void NcclBackend::wait_until_idle(const Meanwhile& meanwhile) {
  while (unfinished(Clock::now()) > 0) {
    meanwhile();
    std::this_thread::yield();
  }
}

void NcclBackend::close(const Meanwhile& meanwhile) {
  if (!is_open_) return;
  const DeviceScope scope(*device_);
  wait_until_idle(meanwhile);
  for (auto& [number, set] : sets_) set.communicator->finish(meanwhile);
  sets_.clear();
  kernels_.reset();
  staging_.reset();
}

Duration NcclBackend::abort_limit() const {
  return std::min(settings_.timeout, kAbortLimit);
}

/// Giving memory back can wait for what the program has put on the device, so it has a thread of its own,
/// too.
void NcclBackend::fail(const Error& error) noexcept {
  if (!is_open_) return;
  device_->abandon();
  try {
    const std::shared_ptr<Needs> needs(
        new Needs{device_, launched_.fail(error), std::move(staging_), std::move(kernels_)});
    for (auto& [number, set] : sets_) set.communicator->abort(needs);
    stragglers_->start("giving GPU memory back", abort_limit(), [needs] {});
  } catch (const std::exception& another) {
    log_error(fmt::format("communicators could not be aborted: {}", another.what()));
  }
  sets_.clear();
}

}  // namespace hora::nccl
