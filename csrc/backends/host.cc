#include "backends/host.h"

namespace hora {

bool HostBackend::accepts(const Batch& batch) const {
  return batch.signature().device == DeviceKind::kHost;
}

void HostBackend::run(const Batch& batch, std::span<Submission> calls, const Group& group) {
  tensors_.collect(batch, calls);
  tensors_.for_each_dtype([&](DType dtype, std::span<const OpTensor> tensors) {
    try {
      op_spec(batch.signature().op).run_on_host({group, batch, dtype, tensors, staging_, scratch_, faults_});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kMismatch) abandon_memory();
      throw;
    } catch (...) {
      abandon_memory();
      throw;
    }
  });
}

/// The transport may still have transfers under way.
void HostBackend::abandon_memory() {
  staging_.abandon();
  scratch_.abandon();
}

}  // namespace hora
