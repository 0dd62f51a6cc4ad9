#pragma once

#include <span>
#include <vector>

#include "core/batch.h"
#include "core/submission.h"
#include "ops/table.h"

namespace hora {

/// The tensors of a batch on this rank, sorted by dtype; otherwise in the order of the batch. Kept by a
/// backend for its memory.
class BatchTensors {
 public:
  void collect(const Batch& batch, std::span<Submission> calls);

  /// Calls `run(dtype, tensors)` for each dtype; only a group can have several.
  template <typename Run>
  void for_each_dtype(const Run& run) const {
    for (std::span<const OpTensor> rest = tensors_; !rest.empty();) {
      const std::size_t count = of_first_dtype(rest);
      run(rest.front().type->dtype, rest.first(count));
      rest = rest.subspan(count);
    }
  }

 private:
  [[nodiscard]] static std::size_t of_first_dtype(std::span<const OpTensor> tensors);

  std::vector<OpTensor> tensors_;
};

}  // namespace hora
