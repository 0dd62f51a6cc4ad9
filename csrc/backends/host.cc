#include "backends/host.h"

namespace hora {

bool HostBackend::accepts(const Batch& batch) const {
  return batch.signature().device == DeviceKind::kHost;
}

void HostBackend::run(const Batch& batch, std::span<Submission> calls, const Group& group) {
  tensors_.collect(batch, calls);
  tensors_.for_each_dtype([&](DType dtype, std::span<const OpTensor> tensors) {
    try {
      op_spec(batch.signature().op).run_on_host({group, batch, dtype, tensors, staging_, scratch_});
    } catch (...) {
      // The transport may still have transfers under way.
      staging_.abandon();
      scratch_.abandon();
      throw;
    }
  });
}

}  // namespace hora
