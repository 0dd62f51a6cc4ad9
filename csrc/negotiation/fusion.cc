#include "negotiation/fusion.h"

#include <map>
#include <unordered_map>
#include <utility>

namespace hora {
namespace {

/// What calls of one batch have in common: the signature with the dtype but without shapes.
Signature fusion_key(const Signature& signature) {
  return {.op = signature.op,
          .device = signature.device,
          .reduce = signature.reduce,
          .root = signature.root,
          .prescale = signature.prescale,
          .postscale = signature.postscale,
          .tensors = {{signature.tensors.front().dtype, {}}},
          .ranks = signature.ranks,
          .refusal = {}};
}

bool may_share_batch(const Signature& signature, const FusionOptions& options) {
  return options.fusable[static_cast<std::size_t>(signature.op)] && options.threshold_bytes != 0 &&
         !signature.tensors.empty() && signature.is_uniform();
}

}  // namespace

std::vector<Batch> fuse(std::vector<ReadyCall> ready, const FusionOptions& options) {
  struct Open {
    std::size_t batch;
    std::uint64_t bytes;
  };
  std::vector<Batch> batches;
  // By contributors.
  std::map<std::pair<int, std::vector<int>>, std::unordered_map<Signature, Open>> open;
  for (ReadyCall& call : ready) {
    const Signature& signature = call.entry.signature;
    const bool may_share = may_share_batch(signature, options);
    const std::uint64_t bytes = may_share ? signature.bytes() : 0;
    if (may_share && bytes <= options.threshold_bytes) {
      const auto [found, is_new] =
          open[{call.contributors, call.absent}].try_emplace(fusion_key(signature), Open{batches.size(), 0});
      Open& current = found->second;
      const bool fits = !is_new && current.bytes + bytes <= options.threshold_bytes;
      if (fits) {
        current.bytes += bytes;
        batches[current.batch].entries.push_back(std::move(call.entry));
        continue;
      }
      current = {batches.size(), bytes};
    }
    Batch batch;
    batch.piece_bytes = options.piece_bytes;
    batch.contributors = call.contributors;
    batch.divisor = call.divisor;
    batch.entries.push_back(std::move(call.entry));
    batches.push_back(std::move(batch));
  }
  return batches;
}

}  // namespace hora
