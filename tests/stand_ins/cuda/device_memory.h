#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "backends/cuda/driver_api.h"

namespace hora::fake_cuda {

/// The memory of one device: the same pages mapped twice. Device pointers lie in the *closed* mapping, where
/// every access faults; work uses the *open* one. Allocations keep a distance, guarded by a pattern behind
/// their end, and what is freed is filled with kPoison and rests for a while before it is handed out again.
///
/// Not synchronised.
class DeviceMemory {
 public:
  static constexpr unsigned char kPoison = 0xdf;

  struct Block {
    std::size_t bytes = 0;
    std::size_t span = 0;  ///< with the distance to the next
    bool living = true;
  };

  /// Nothing is touched before it is used, hence the addresses may be many times the memory.
  explicit DeviceMemory(std::size_t address_bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// Nothing if no gap is left that is large enough.
  [[nodiscard]] std::optional<std::uintptr_t> allocate(std::size_t bytes);

  /// Ends the process with a message if something wrote behind the block. The address must be a living
  /// block's.
  void release(std::uintptr_t address);

  /// Whether the address belongs to this device, allocated or not.
  [[nodiscard]] bool contains(std::uintptr_t address) const;

  /// The living block with all these bytes, or null.
  [[nodiscard]] const Block* find(std::uintptr_t address, std::size_t bytes) const;

  /// The living block that begins there, or null.
  [[nodiscard]] const Block* find_beginning(std::uintptr_t address) const;

  /// The address in the open mapping.
  [[nodiscard]] std::byte* open(std::uintptr_t address) const;

  /// The block below and the block above the address, in words.
  [[nodiscard]] std::string describe_neighbours(std::uintptr_t address) const;

  [[nodiscard]] std::size_t live_bytes() const { return live_bytes_; }
  [[nodiscard]] const std::map<std::uintptr_t, Block>& blocks() const { return blocks_; }

 private:
  [[nodiscard]] std::optional<std::uintptr_t> find_gap(std::uintptr_t from, std::size_t span) const;
  void check_guard(std::uintptr_t address, const Block& block) const;
  void rest(std::uintptr_t address);

  std::size_t address_bytes_;
  int file_;
  std::uintptr_t closed_;
  std::byte* open_;
  std::uintptr_t next_;                     ///< where the search for a gap begins
  std::map<std::uintptr_t, Block> blocks_;  ///< living and resting
  std::deque<std::uintptr_t> resting_;
  std::size_t resting_bytes_ = 0;
  std::size_t live_bytes_ = 0;
};

/// Writes a message of the stand-in to the standard error output and aborts.
[[noreturn]] void stop(const std::string& message);

}  // namespace hora::fake_cuda
