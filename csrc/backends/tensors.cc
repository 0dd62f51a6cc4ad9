#include "backends/tensors.h"

#include <algorithm>

namespace hora {
namespace {

DType dtype_of(const OpTensor& tensor) {
  return tensor.type->dtype;
}

}  // namespace

void BatchTensors::collect(const Batch& batch, std::span<Submission> calls) {
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
  std::ranges::stable_sort(tensors_, {}, dtype_of);
}

std::size_t BatchTensors::of_first_dtype(std::span<const OpTensor> tensors) {
  const DType dtype = dtype_of(tensors.front());
  const auto end =
      std::ranges::find_if(tensors, [&](const OpTensor& tensor) { return dtype_of(tensor) != dtype; });
  return static_cast<std::size_t>(end - tensors.begin());
}

}  // namespace hora
