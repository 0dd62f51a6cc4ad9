#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/batch.h"
#include "core/submission.h"
#include "transport/group.h"

namespace hora {

/// Runs batches somewhere. Owns its staging memory; packs, runs and unpacks itself.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Whether it runs this batch: a function of agreed data only, so that all ranks pick the same backend.
  [[nodiscard]] virtual bool accepts(const Batch& batch) const = 0;

  /// Runs it on `calls`, which are in the order of the batch's entries. Throws when the session cannot go on.
  virtual void run(const Batch& batch, std::span<Submission> calls, const Group& group) = 0;
};

/// All backends of this build; the first that accepts a batch runs it.
[[nodiscard]] std::vector<std::unique_ptr<Backend>> make_backends();

}  // namespace hora
