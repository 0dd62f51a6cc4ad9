#include "negotiation/fusion.h"

#include <unordered_map>
#include <utility>

namespace hora {
namespace {

/// What tensors of one batch have in common: the signature without the shape.
Signature fusion_key(const Signature& signature) {
  Signature key = signature;
  key.shape.clear();
  return key;
}

bool may_share_batch(const ReadyTensor& tensor, const FusionOptions& options) {
  const auto op = static_cast<std::size_t>(tensor.entry.signature.op);
  return options.fusable[op] && options.threshold_bytes != 0 && tensor.bytes <= options.threshold_bytes;
}

}  // namespace

std::vector<Batch> fuse(std::vector<ReadyTensor> ready, const FusionOptions& options) {
  struct Open {
    std::size_t batch;
    std::uint64_t bytes;
  };
  std::vector<Batch> batches;
  std::unordered_map<Signature, Open> open;
  for (ReadyTensor& tensor : ready) {
    const Signature& signature = tensor.entry.signature;
    if (may_share_batch(tensor, options)) {
      const auto [found, is_new] = open.try_emplace(fusion_key(signature), Open{batches.size(), 0});
      Open& current = found->second;
      const bool fits = !is_new && current.bytes + tensor.bytes <= options.threshold_bytes;
      if (fits) {
        current.bytes += tensor.bytes;
        batches[current.batch].entries.push_back(std::move(tensor.entry));
        continue;
      }
      current = {batches.size(), tensor.bytes};
    }
    Batch batch;
    batch.piece_bytes = options.piece_bytes;
    batch.entries.push_back(std::move(tensor.entry));
    batches.push_back(std::move(batch));
  }
  return batches;
}

}  // namespace hora
