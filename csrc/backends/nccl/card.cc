#include "backends/nccl/card.h"

#include "backends/nccl/nccl_library.h"
#include "base/error.h"
#include "base/text.h"

namespace hora::nccl {
namespace {

void check_versions(std::span<const Card> cards) {
  const Card& first = cards.front();
  for (const Card& card : cards) {
    if (card.version == first.version) continue;
    raise(ErrorKind::kSessionFailed, "rank {} has NCCL {}, rank {} has NCCL {}; install the same on all",
          first.job_rank, describe_version(first.version), card.job_rank, describe_version(card.version));
  }
}

/// Without what tells hosts of one name apart.
std::string name_of_host(const Card& card) {
  const std::string host = text_in(card.host);
  return host.substr(0, host.find(' '));
}

void check_devices(std::span<const Card> cards) {
  for (auto one = cards.begin(); one != cards.end(); ++one) {
    const auto other = std::find_if(one + 1, cards.end(), [&](const Card& card) {
      return card.bus_id == one->bus_id && card.host == one->host;
    });
    if (other == cards.end()) continue;
    raise(ErrorKind::kSessionFailed,
          "ranks {} and {} both use GPU {} of {}; call torch.cuda.set_device(hora.local_rank()) before the "
          "first tensor",
          one->job_rank, other->job_rank, text_in(one->bus_id), name_of_host(*one));
  }
}

}  // namespace

Agreement agree(std::span<const Card> cards) {
  const Card& first = cards.front();
  if (const std::string problem = text_in(first.problem); !problem.empty())
    raise(ErrorKind::kSessionFailed, "ncclGetUniqueId failed on rank {}: {}", first.job_rank, problem);
  check_versions(cards);
  check_devices(cards);
  Agreement agreement{first.id, first.staging_bytes, true};
  for (const Card& card : cards) {
    agreement.staging_bytes = std::min(agreement.staging_bytes, card.staging_bytes);
    agreement.have_kernels = agreement.have_kernels && card.has_kernels != 0;
  }
  return agreement;
}

}  // namespace hora::nccl
