#include "backends/cuda/device.h"

#include <array>

#include "base/error.h"

namespace hora::cuda {

Device::Device(std::shared_ptr<const Driver> driver, int number)
    : driver_(std::move(driver)), number_(number) {
  const Driver& cuda = *driver_;
  check(cuda, cuda.init(0), "cuInit");
  check(cuda, cuda.device(&device_, number), "cuDeviceGet");
  std::array<char, 32> id{};
  check(cuda, cuda.device_pci_bus_id(id.data(), static_cast<int>(id.size()), device_), "cuDeviceGetPCIBusId");
  pci_bus_id_ = id.data();
  int major = 0;
  int minor = 0;
  check(cuda, cuda.device_attribute(&major, DeviceAttribute::kComputeCapabilityMajor, device_),
        "cuDeviceGetAttribute");
  check(cuda, cuda.device_attribute(&minor, DeviceAttribute::kComputeCapabilityMinor, device_),
        "cuDeviceGetAttribute");
  compute_capability_ = 10 * major + minor;
  check(cuda, cuda.primary_context_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
  const DeviceScope scope(*this);
  int least = 0;
  int greatest = 0;
  check(cuda, cuda.stream_priority_range(&least, &greatest), "cuCtxGetStreamPriorityRange");
  check(cuda, cuda.stream_create(&stream_, kStreamNonBlocking, greatest), "cuStreamCreateWithPriority");
  check(cuda, cuda.stream_create(&side_stream_, kStreamNonBlocking, least), "cuStreamCreateWithPriority");
}

Device::~Device() {
  if (is_abandoned()) return;
  {
    const DeviceScope scope(*this);
    for (const Event event : spare_events_) static_cast<void>(driver_->event_destroy(event));
    static_cast<void>(driver_->stream_destroy(stream_));
    static_cast<void>(driver_->stream_destroy(side_stream_));
  }
  static_cast<void>(driver_->primary_context_release(device_));
}

std::shared_ptr<EventTag> Device::new_event() {
  Event event = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_events_.empty()) {
      event = spare_events_.back();
      spare_events_.pop_back();
    }
  }
  if (event == nullptr) {
    const DeviceScope scope(*this);
    check(*driver_, driver_->event_create(&event, kEventDisableTiming), "cuEventCreate");
  }
  return {event, [device = shared_from_this()](Event used) { device->give_back(used); }};
}

void Device::give_back(Event event) {
  if (is_abandoned()) return;
  const std::lock_guard lock(mutex_);
  spare_events_.push_back(event);
}

bool Device::is_capturing(std::uintptr_t stream) const {
  const DeviceScope scope(*this);
  CaptureStatus status = CaptureStatus::kNone;
  const Result result = driver_->stream_is_capturing(to_stream(stream), &status);
  // Other failures are those of the device, which the next call tells.
  return result == Result::kStreamCaptureImplicit || status != CaptureStatus::kNone;
}

void Device::require_no_capture(std::uintptr_t stream) const {
  if (!is_capturing(stream)) return;
  raise(ErrorKind::kInvalidArgument,
        "the current stream captures a CUDA graph, of which collectives cannot be part; call and wait "
        "outside of it");
}

DeviceScope::DeviceScope(const Device& device)
    : device_(device), is_current_(device.driver().context_push(device.context_) == Result::kSuccess) {
  static_cast<void>(device_.driver().exchange_capture_mode(&capture_mode_));
}

DeviceScope::~DeviceScope() {
  static_cast<void>(device_.driver().exchange_capture_mode(&capture_mode_));
  Context popped = nullptr;
  if (is_current_) static_cast<void>(device_.driver().context_pop(&popped));
}

}  // namespace hora::cuda
