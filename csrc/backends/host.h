#pragma once

#include "backends/backend.h"
#include "backends/tensors.h"
#include "base/buffer.h"

namespace hora {

/// Runs batches of host memory on the engine's thread.
class HostBackend final : public Backend {
 public:
  [[nodiscard]] bool accepts(const Batch& batch) const override;
  void run(const Batch& batch, std::span<Submission> calls, const Group& group) override;

 private:
  BatchTensors tensors_;
  Buffer staging_;
  Buffer scratch_;
};

}  // namespace hora
