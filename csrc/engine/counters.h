#pragma once

#include <atomic>
#include <cstdint>

namespace hora {

/// What a session has done so far. Written by the engine, read from anywhere.
struct Counters {
  std::atomic<std::uint64_t> plans{0};     ///< plans received or, at the root, made
  std::atomic<std::uint64_t> batches{0};   ///< batches run
  std::atomic<std::uint64_t> tensors{0};   ///< tensors in those batches
  std::atomic<std::uint64_t> bytes{0};     ///< bytes of those tensors on this rank
  std::atomic<std::uint64_t> errors{0};    ///< calls that failed because ranks disagreed
  std::atomic<std::uint64_t> messages{0};  ///< messages of agreement sent
  std::atomic<std::uint64_t> message_bytes{0};
  std::atomic<std::uint64_t> cache_hits{0};  ///< calls of this rank that were announced by a small id
};

}  // namespace hora
