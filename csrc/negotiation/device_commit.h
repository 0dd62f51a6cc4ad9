#pragma once

#include <cstdint>

namespace hora {

/// What the root knows when it decides whether to plan calls on devices.
struct DeviceLoad {
  std::uint64_t ready_bytes = 0;   ///< of calls that are ready everywhere
  std::uint64_t bucket_bytes = 0;  ///< enough for a batch
  std::size_t unfinished = 0;      ///< batches that its own device is not through with
  bool caller_waits = false;       ///< on some rank, for one of the calls
};

/// A call on a device is agreed on when it has been submitted, long before its tensors are computed: the
/// program runs ahead of the device. Planned at once, or when the engine is free, most of a backward pass
/// would travel in one batch, which waits for the last of its tensors, and nothing would overlap. So calls
/// are held back until there are enough for a batch; but not when the device has nothing to do after the
/// batch that it is at, nor when somebody waits.
[[nodiscard]] constexpr bool may_plan(const DeviceLoad& load) {
  constexpr std::size_t kAhead = 2;
  return load.caller_waits || load.unfinished < kAhead || load.ready_bytes >= load.bucket_bytes;
}

}  // namespace hora
