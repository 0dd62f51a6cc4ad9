#pragma once

#include <vector>

#include "backends/backend.h"
#include "base/buffer.h"
#include "ops/table.h"

namespace hora {

/// Runs batches of host memory on the engine's thread.
class HostBackend final : public Backend {
 public:
  [[nodiscard]] bool accepts(const Batch& batch) const override;
  void run(const Batch& batch, std::span<Submission> calls, const Group& group) override;

 private:
  void collect(const Batch& batch, std::span<Submission> calls);

  std::vector<HostTensor> tensors_;  // of the batch that runs
  Buffer staging_;
  Buffer scratch_;
};

}  // namespace hora
