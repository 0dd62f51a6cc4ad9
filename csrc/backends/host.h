#pragma once

#include "backends/backend.h"
#include "base/buffer.h"

namespace hora {

/// Runs batches of host memory on the engine's thread.
class HostBackend final : public Backend {
 public:
  [[nodiscard]] bool accepts(const Batch& batch) const override;
  void run(const Batch& batch, std::span<Submission*> tensors, const Group& group) override;

 private:
  Buffer staging_;
  Buffer scratch_;
};

}  // namespace hora
