#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/batch.h"

namespace hora {

/// A tensor that every rank has announced with equal attributes.
struct ReadyTensor {
  BatchEntry entry;
  std::uint64_t bytes;
};

struct FusionOptions {
  std::uint64_t threshold_bytes = 0;
  std::uint64_t piece_bytes = 0;
  std::array<bool, kOpCount> fusable{};  ///< by op
};

/// Puts ready tensors into batches: tensors of a fusable op that differ only in name and shape share a batch
/// up to the threshold; a larger tensor travels alone. Batches keep the order of their first tensors.
[[nodiscard]] std::vector<Batch> fuse(std::vector<ReadyTensor> ready, const FusionOptions& options);

}  // namespace hora
