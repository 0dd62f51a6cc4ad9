#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/cuda_library.h"
#include "core/device_work.h"

namespace hora::cuda {

/// One GPU of this process, with the streams on which hora works. It uses the same primary context as every
/// framework.
///
/// Lock map: spare_events_ -> mutex_; all else is set once.
class Device : public std::enable_shared_from_this<Device> {
 public:
  /// Throws Error(kSessionFailed) with what the driver says.
  Device(std::shared_ptr<const Driver> driver, int number);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] const Driver& driver() const { return *driver_; }
  [[nodiscard]] int number() const { return number_; }
  /// Carries packing and collectives, in the agreed order, and nothing else: what the program puts on its own
  /// streams never waits for it without being asked to.
  [[nodiscard]] Stream stream() const { return stream_; }
  /// For what only has to wait for something and must not keep the other from going on.
  [[nodiscard]] Stream side_stream() const { return side_stream_; }
  /// Such as "0000:1b:00.0"; tells whether two ranks use the same device.
  [[nodiscard]] const std::string& pci_bus_id() const { return pci_bus_id_; }
  /// Such as 90 for 9.0.
  [[nodiscard]] int compute_capability() const { return compute_capability_; }

  /// An event that goes back to the device when its last owner lets go.
  [[nodiscard]] std::shared_ptr<EventTag> new_event();

  /// Whether work on a stream is taken down for a graph instead of being done.
  [[nodiscard]] bool is_capturing(std::uintptr_t stream) const;
  /// Throws Error(kInvalidArgument) if so.
  void require_no_capture(std::uintptr_t stream) const;

  /// From now on nothing is given back to the driver, since NCCL may be at it, and the driver could block.
  void abandon() { abandoned_ = true; }
  /// NCCL is through: what still is there may be given back.
  void take_back() { abandoned_ = false; }
  [[nodiscard]] bool is_abandoned() const { return abandoned_ || is_of_parent(); }
  /// In a forked child, which has no device: its driver does not work, and locks of it and of ours may be
  /// held by threads that the child does not have.
  [[nodiscard]] bool is_of_parent() const { return process_ != getpid(); }

 private:
  void give_back(Event event);

  const std::shared_ptr<const Driver> driver_;
  const int number_;
  const pid_t process_ = getpid();
  DeviceNumber device_ = 0;
  Context context_ = nullptr;
  Stream stream_ = nullptr;
  Stream side_stream_ = nullptr;
  std::string pci_bus_id_;
  int compute_capability_ = 0;
  std::atomic<bool> abandoned_ = false;
  std::mutex mutex_;
  std::vector<Event> spare_events_;

  friend class DeviceScope;
};

/// While it lives, calls of this thread are about this device, and they neither disturb nor are refused
/// because of a graph that the program is capturing.
class DeviceScope {
 public:
  explicit DeviceScope(const Device& device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  const Device& device_;
  const bool is_current_;  // if not, the calls themselves fail; this is used in destructors
  CaptureMode capture_mode_ = CaptureMode::kRelaxed;  // what it was before
};

/// No stream; null is one.
inline constexpr std::uintptr_t kNoStream = ~std::uintptr_t{0};

/// A stream that the front end passed as a number.
[[nodiscard]] inline Stream to_stream(std::uintptr_t number) {
  return reinterpret_cast<Stream>(number);
}

}  // namespace hora::cuda
