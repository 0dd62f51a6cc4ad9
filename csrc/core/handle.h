#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/exception.h"
#include "core/completions.h"
#include "core/device_work.h"
#include "core/request.h"
#include "core/tensor_ref.h"

namespace hora {

/// A result whose size is known only after the operation has started; owned by the core.
struct Output {
  std::shared_ptr<std::byte[]> data;
  Shape shape;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> sizes;  ///< extent of the first dimension contributed by each rank
  int device = -1;                  ///< whose memory it is; -1: the host's

  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(element_count(shape)) * size_of(dtype);
  }
};

/// The future of one submitted call.
///
/// Lock map: error_, outputs_, value_, work_ -> written once before done_, read-only afterwards; waiting
/// threads sleep on changed_ under mutex_; completions_, ticket_ -> mutex_. Completion happens on the
/// engine's thread and runs no foreign code.
class Handle {
 public:
  explicit Handle(Key key, DeviceKind device = DeviceKind::kHost) : key_(std::move(key)), device_(device) {}

  /// As it was submitted: the number of an unnamed call is not known here.
  [[nodiscard]] const Key& key() const { return key_; }
  [[nodiscard]] DeviceKind device() const { return device_; }
  /// Of an operation on a device only that it was launched: see `work`.
  [[nodiscard]] bool done() const { return done_.load(std::memory_order_acquire); }

  /// Blocks until the operation is complete or the deadline has passed; says whether it is complete.
  bool wait_until(TimePoint deadline);

  /// Pushes `ticket` to `completions` when the operation is complete, or now if it is. At most once.
  void report_to(std::shared_ptr<Completions> completions, void* ticket);

  /// Once done: the error of a failed operation, or null.
  [[nodiscard]] const Error* error() const { return error_ ? &*error_ : nullptr; }
  /// Once done: the results of an operation that allocates them, one for each tensor.
  [[nodiscard]] const std::vector<Output>& outputs() const { return outputs_; }

  /// Once done: what the root decided, see Batch::value.
  [[nodiscard]] std::int64_t value() const { return value_; }

  /// Once done: what the device still does, or null.
  [[nodiscard]] DeviceWork* work() const { return work_.get(); }

  /// Before `succeed`.
  void attach(std::shared_ptr<DeviceWork> work) { work_ = std::move(work); }
  void succeed(std::vector<Output> outputs = {}, std::int64_t value = 0);
  void fail(const Error& error);

 private:
  void finish();

  const Key key_;
  const DeviceKind device_;
  std::optional<Error> error_;
  std::vector<Output> outputs_;
  std::int64_t value_ = 0;
  std::shared_ptr<DeviceWork> work_;
  std::atomic<bool> done_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Completions> completions_;
  void* ticket_ = nullptr;
};

using HandlePtr = std::shared_ptr<Handle>;

}  // namespace hora
