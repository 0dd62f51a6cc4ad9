#pragma once

#include "backends/backend.h"
#include "backends/tensors.h"
#include "base/buffer.h"
#include "base/faults.h"

namespace hora {

/// Runs batches of host memory on the engine's thread.
class HostBackend final : public Backend {
 public:
  explicit HostBackend(Faults& faults) : faults_(faults) {}

  [[nodiscard]] bool accepts(const Batch& batch) const override;
  void run(const Batch& batch, std::span<Submission> calls, const Group& group) override;

 private:
  void abandon_memory();

  Faults& faults_;
  BatchTensors tensors_;
  Buffer staging_;
  Buffer scratch_;
};

}  // namespace hora
