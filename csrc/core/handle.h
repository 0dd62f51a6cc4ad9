#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "core/tensor_ref.h"

namespace hora {

/// A result whose size is known only after the operation has started; owned by the core.
struct Output {
  std::shared_ptr<std::byte[]> data;
  Shape shape;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> sizes;  ///< extent of the first dimension contributed by each rank

  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(element_count(shape)) * size_of(dtype);
  }
};

/// The future of one submitted tensor.
///
/// Lock map: error_, output_ -> written once before done_, read-only afterwards; waiting threads sleep on
/// changed_ under mutex_. Completion happens on the engine's thread and runs no foreign code.
class Handle {
 public:
  explicit Handle(std::string name) : name_(std::move(name)) {}

  /// Empty for an unnamed call.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool done() const { return done_.load(std::memory_order_acquire); }

  /// Blocks until the operation is complete or the deadline has passed; says whether it is complete.
  bool wait_until(TimePoint deadline);

  /// Once done: the error of a failed operation, or null.
  [[nodiscard]] const Error* error() const { return error_ ? &*error_ : nullptr; }
  /// Once done: the result of an operation that allocates it, or null.
  [[nodiscard]] const Output* output() const { return output_ ? &*output_ : nullptr; }

  void succeed(std::optional<Output> output = std::nullopt);
  void fail(const Error& error);

 private:
  void finish();

  const std::string name_;
  std::optional<Error> error_;
  std::optional<Output> output_;
  std::atomic<bool> done_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
};

using HandlePtr = std::shared_ptr<Handle>;

}  // namespace hora
