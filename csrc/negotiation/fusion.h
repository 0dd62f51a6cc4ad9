#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/batch.h"

namespace hora {

/// A call that every rank has announced with equal attributes.
struct ReadyCall {
  BatchEntry entry;
  int contributors = 0;
  int divisor = 0;
  /// Ranks that take part without having announced it, because they have joined.
  std::vector<int> absent = {};

  [[nodiscard]] std::int32_t process_set() const { return entry.key.process_set; }
};

struct FusionOptions {
  std::uint64_t threshold_bytes = 0;
  std::uint64_t piece_bytes = 0;
  std::array<bool, kOpCount> fusable{};  ///< by op
  bool adasum_alone = false;             ///< its last bits depend on where in a batch a tensor lies
};

/// Puts ready calls into batches: calls of a fusable op that differ only in names and shapes, and to which
/// the same ranks contribute, share a batch up to the threshold; a larger one and a group of several dtypes
/// travel alone. Batches keep the order of their first calls.
[[nodiscard]] std::vector<Batch> fuse(std::vector<ReadyCall> ready, const FusionOptions& options);

}  // namespace hora
