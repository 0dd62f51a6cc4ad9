#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "backends/cuda/device.h"
#include "backends/nccl/launched.h"

namespace hora::nccl {

/// What a device rings when it is through with a batch. It may still ring when its owner has ended.
///
/// Lock map: ring_ and is_armed_ -> mutex_.
class Doorbell : public std::enable_shared_from_this<Doorbell> {
 public:
  /// Calls `ring`, from any thread, when the device is through with the batch; does nothing when the bell is
  /// armed already.
  void ring_after(const LaunchedBatch& batch, const cuda::Device& device, std::function<void()> ring);

  /// Never rings again.
  void take_off();

 private:
  static void on_arrival(void* data);

  std::mutex mutex_;
  std::function<void()> ring_;
  bool is_armed_ = false;
};

}  // namespace hora::nccl
