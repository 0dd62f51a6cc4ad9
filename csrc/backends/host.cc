#include "backends/host.h"

#include "ops/table.h"

namespace hora {

bool HostBackend::accepts(const Batch& batch) const {
  return batch.signature().device == DeviceKind::kHost;
}

void HostBackend::run(const Batch& batch, std::span<Submission*> tensors, const Group& group) {
  op_spec(batch.signature().op).run_on_host({group, batch, tensors, staging_, scratch_});
}

}  // namespace hora
