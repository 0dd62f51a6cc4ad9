#include "negotiation/fusion.h"

#include <algorithm>
#include <utility>

namespace hora {
namespace {

/// Whether calls differ in names and shapes only. Both are uniform.
bool are_alike(const Signature& one, const Signature& other) {
  return one.op == other.op && one.device == other.device && one.reduce == other.reduce &&
         one.root == other.root && one.prescale == other.prescale && one.postscale == other.postscale &&
         one.wire == other.wire && one.tensors.front().dtype == other.tensors.front().dtype &&
         one.ranks == other.ranks;
}

bool may_share_batch(const Signature& signature, const FusionOptions& options) {
  if (options.adasum_alone && signature.reduce == ReduceOp::kAdasum) return false;
  return options.fusable[static_cast<std::size_t>(signature.op)] && options.threshold_bytes != 0 &&
         !signature.tensors.empty() && signature.is_uniform();
}

/// The last batch of its kind, which a further call may join.
struct Open {
  std::size_t batch;
  std::uint64_t bytes;
  int contributors;
  std::vector<int> absent;
};

}  // namespace

std::vector<Batch> fuse(std::vector<ReadyCall> ready, const FusionOptions& options) {
  std::vector<Batch> batches;
  std::vector<Open> open;  // there are few kinds, most often one
  const auto begin_batch = [&](ReadyCall& call) {
    Batch& batch = batches.emplace_back();
    batch.piece_bytes = options.piece_bytes;
    batch.contributors = call.contributors;
    batch.divisor = call.divisor;
    batch.entries.push_back(std::move(call.entry));
  };
  for (ReadyCall& call : ready) {
    const SharedSignature signature = call.entry.signature;
    const std::uint64_t bytes = may_share_batch(*signature, options) ? signature->bytes() : 0;
    if (!may_share_batch(*signature, options) || bytes > options.threshold_bytes) {
      begin_batch(call);
      continue;
    }
    const auto current = std::ranges::find_if(open, [&](const Open& each) {
      return each.contributors == call.contributors && each.absent == call.absent &&
             are_alike(batches[each.batch].signature(), *signature);
    });
    if (current == open.end()) {
      open.push_back({batches.size(), bytes, call.contributors, call.absent});
      begin_batch(call);
    } else if (current->bytes + bytes <= options.threshold_bytes) {
      current->bytes += bytes;
      batches[current->batch].entries.push_back(std::move(call.entry));
    } else {
      current->batch = batches.size();
      current->bytes = bytes;
      begin_batch(call);
    }
  }
  return batches;
}

}  // namespace hora
