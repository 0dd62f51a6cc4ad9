#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "backends/cuda/device.h"
#include "backends/cuda/memory_pool.h"
#include "base/clock.h"
#include "base/exception.h"
#include "core/device_work.h"

namespace hora::nccl {

/// A batch that a device was told to run. Its events tell when the device begins with it, which is when
/// everything that the program put before it is through, and when it is through with it.
///
/// Lock map: failure_ -> mutex_; has_end_, complete_ and consumer are atomics; the rest is set once.
class LaunchedBatch final : public DeviceWork {
 public:
  LaunchedBatch(std::shared_ptr<cuda::Device> device, std::string what);

  [[nodiscard]] bool is_complete() override;
  void order_before(std::uintptr_t stream) override;
  void wait() override;

  /// What the stream is given from now on runs after it.
  void hold(cuda::Stream stream) const;
  /// What the driver says to the question whether it is through; kNotReady while it is not.
  [[nodiscard]] cuda::Result state() const;
  /// Throws Error(kSessionFailed), naming the operation, when it is not kSuccess.
  void check_state(cuda::Result state) const;
  [[nodiscard]] bool has_begun() const;
  /// Names the first operation: "allreduce 'x'".
  [[nodiscard]] const std::string& what() const { return what_; }
  void record_begin();
  void record_end();
  /// From now on whoever waits for it gets this.
  void fail(const Error& error);

  /// Where its results go on to be used.
  const cuda::Consumer consumer;

 private:
  void throw_if_failed();

  const std::shared_ptr<cuda::Device> device_;
  const std::string what_;
  const std::shared_ptr<cuda::EventTag> begin_;
  const std::shared_ptr<cuda::EventTag> end_;
  std::atomic<bool> has_end_ = false;
  std::atomic<bool> complete_ = false;
  std::mutex mutex_;
  std::optional<Error> failure_;
};

/// The batches that a device is not through with, in order. Used by the engine's thread.
class LaunchedBatches {
 public:
  /// With every batch goes what it needs until it is complete.
  void add(std::shared_ptr<LaunchedBatch> batch, const Batch& agreed, std::shared_ptr<void> needs);

  /// Lets go of what is complete. Throws Error(kSessionFailed), naming the operation, when the device has
  /// been at one for longer than `limit`.
  void look(TimePoint now, Duration limit);

  /// The process sets of those that were let go of since the last time.
  [[nodiscard]] std::vector<std::int32_t> take_finished() { return std::exchange(finished_, {}); }

  [[nodiscard]] std::size_t size() const { return batches_.size(); }
  /// The one that will be complete first, or null.
  [[nodiscard]] std::shared_ptr<LaunchedBatch> oldest() const;
  [[nodiscard]] std::optional<OnDevice> first() const;
  /// All fail; what they need is returned, to be kept until nothing of them runs any more.
  [[nodiscard]] std::shared_ptr<void> fail(const Error& error);

 private:
  struct Entry {
    std::shared_ptr<LaunchedBatch> batch;
    std::uint64_t number;
    std::int32_t process_set;
    std::shared_ptr<void> needs;
    std::optional<TimePoint> begun;  ///< when it was first seen to have
  };

  std::deque<Entry> batches_;
  std::vector<std::int32_t> finished_;
};

}  // namespace hora::nccl
