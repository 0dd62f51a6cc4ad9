#include "backends/host.h"

#include <algorithm>

namespace hora {
namespace {

DType dtype_of(const HostTensor& tensor) {
  return tensor.type->dtype;
}

}  // namespace

bool HostBackend::accepts(const Batch& batch) const {
  return batch.signature().device == DeviceKind::kHost;
}

/// Only a group can have several dtypes; the op runs once for each.
void HostBackend::run(const Batch& batch, std::span<Submission> calls, const Group& group) {
  collect(batch, calls);
  std::ranges::stable_sort(tensors_, {}, dtype_of);
  for (std::span<const HostTensor> rest = tensors_; !rest.empty();) {
    const DType dtype = dtype_of(rest.front());
    const auto end =
        std::ranges::find_if(rest, [&](const HostTensor& tensor) { return dtype_of(tensor) != dtype; });
    const auto count = static_cast<std::size_t>(end - rest.begin());
    try {
      op_spec(batch.signature().op).run_on_host({group, batch, dtype, rest.first(count), staging_, scratch_});
    } catch (...) {
      // The transport may still have transfers under way.
      staging_.abandon();
      scratch_.abandon();
      throw;
    }
    rest = rest.subspan(count);
  }
}

void HostBackend::collect(const Batch& batch, std::span<Submission> calls) {
  tensors_.clear();
  for (std::size_t call = 0; call < calls.size(); ++call) {
    Submission& own = calls[call];
    const std::vector<TensorType>& types = batch.entries[call].signature->tensors;
    const bool allocates = op_spec(batch.signature().op).ragged_first;
    if (allocates) own.results.resize(types.size());
    own.tensors.resize(types.size());  // they are missing where this rank is absent
    for (std::size_t tensor = 0; tensor < types.size(); ++tensor) {
      tensors_.push_back({&types[tensor], own.tensors[tensor], own.splits,
                          allocates ? &own.results[tensor] : nullptr, own.is_absent});
    }
  }
}

}  // namespace hora
