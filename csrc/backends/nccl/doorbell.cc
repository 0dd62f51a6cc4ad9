#include "backends/nccl/doorbell.h"

#include <utility>

namespace hora::nccl {

/// Given to the driver, which calls it on a thread of its own; nothing of CUDA may be called there.
void Doorbell::on_arrival(void* data) {
  const std::unique_ptr<std::shared_ptr<Doorbell>> own(static_cast<std::shared_ptr<Doorbell>*>(data));
  Doorbell& bell = **own;
  const std::lock_guard lock(bell.mutex_);
  bell.is_armed_ = false;
  if (bell.ring_) bell.ring_();
}

void Doorbell::ring_after(const LaunchedBatch& batch, const cuda::Device& device,
                          std::function<void()> ring) {
  {
    const std::lock_guard lock(mutex_);
    if (is_armed_) return;
    is_armed_ = true;
    ring_ = std::move(ring);
  }
  const cuda::DeviceScope scope(device);
  const cuda::Driver& driver = device.driver();
  batch.hold(device.side_stream());
  auto own = std::make_unique<std::shared_ptr<Doorbell>>(shared_from_this());
  check(driver, driver.launch_host_function(device.side_stream(), &Doorbell::on_arrival, own.get()),
        "cuLaunchHostFunc");
  static_cast<void>(own.release());
}

void Doorbell::take_off() {
  const std::lock_guard lock(mutex_);
  ring_ = nullptr;
}

}  // namespace hora::nccl
