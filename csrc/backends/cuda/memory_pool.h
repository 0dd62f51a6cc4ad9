#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "backends/cuda/device.h"

namespace hora::cuda {

/// The stream on which the program goes on to use the results of a batch: that of the thread that waited for
/// them.
using Consumer = std::shared_ptr<std::atomic<std::uintptr_t>>;

/// Memory of a device for results whose size is known late. What is given back is used again and not returned
/// to the driver, which would stop the whole device for it: first the device has to get to where its user was
/// when he gave it back. Like PyTorch's allocator it knows one stream of the user; who uses a result on a
/// third stream keeps it until that is through.
///
/// Lock map: spare_ and returned_ -> mutex_; was_short_ is an atomic; may be called from any thread.
class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  explicit MemoryPool(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  struct Block {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
    std::shared_ptr<EventTag> used;     ///< null, or when its last user is through
    std::uintptr_t stream = kNoStream;  ///< of its last user
  };

  /// Put aside for an `allocate` to come; without memory when that has taken it. What was not taken goes back
  /// to the pool with the last owner.
  using Reserve = std::shared_ptr<Block>;

  /// Null when there are no `bytes` left.
  [[nodiscard]] Reserve reserve(std::size_t bytes);

  /// At least `bytes`, which the device's stream may use at once, of one of the `reserves` where one suits;
  /// null when there is not enough.
  [[nodiscard]] std::shared_ptr<std::byte[]> allocate(std::size_t bytes, Consumer consumer,
                                                      std::span<const Reserve> reserves);

  /// Whether there was not enough for some `allocate` since the last question.
  [[nodiscard]] bool take_shortage() { return was_short_.exchange(false); }

 private:
  [[nodiscard]] std::optional<Block> take(std::size_t bytes);
  [[nodiscard]] std::optional<Block> take_spare(std::size_t bytes);
  [[nodiscard]] std::byte* ask_driver(std::size_t bytes);
  void give_back(Block block, const Consumer& consumer);
  void put_back(Block block);
  void sort_returned();
  void trim();

  const std::shared_ptr<Device> device_;
  std::atomic<bool> was_short_ = false;
  std::mutex mutex_;
  std::vector<Block> spare_;
  std::vector<Block> returned_;  // not yet known when they may be used again
};

}  // namespace hora::cuda
