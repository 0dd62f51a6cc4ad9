#pragma once

#include <cstdint>
#include <memory>

namespace hora {

/// Where a call on a device was made: what the front end knows as plain numbers.
struct DevicePlace {
  int device = -1;            ///< number of the device in this process; -1: host memory
  std::uintptr_t stream = 0;  ///< the caller's stream, on which the tensors become ready

  bool operator==(const DevicePlace&) const = default;
};

/// When the tensors of a call are ready: after what its stream was given before.
struct DeviceReady {
  DevicePlace place;
  std::uint64_t number = 0;     ///< of the session's calls, ascending
  std::shared_ptr<void> event;  ///< recorded on the stream
};

/// What a device still does for operations that have been launched; shared by those of one batch. All
/// functions may be called from any thread.
class DeviceWork {
 public:
  virtual ~DeviceWork() = default;

  /// Whether the device is through with it, so that no tensor is needed any more.
  [[nodiscard]] virtual bool is_complete() = 0;

  /// What the stream is given from now on runs after it. Throws Error(kSessionFailed) when it has failed.
  virtual void order_before(std::uintptr_t stream) = 0;

  /// Blocks the host until it is complete. Throws Error(kSessionFailed) when it has failed.
  virtual void wait() = 0;
};

}  // namespace hora
