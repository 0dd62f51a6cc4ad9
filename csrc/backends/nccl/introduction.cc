#include "backends/nccl/introduction.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <span>
#include <vector>

#include "backends/nccl/nccl_library.h"
#include "base/config.h"
#include "base/error.h"
#include "collectives/ring.h"

namespace hora::nccl {
namespace {

/// As it travels.
struct Card {
  UniqueId id;
  Introduction about;
  int job_rank;
  std::array<char, 256> host;  // where its GPU is; NCCL, too, takes equal bus ids on one host for one GPU
  std::array<char, 32> bus_id;
  std::array<char, 200> problem;
};

template <std::size_t kLength>
void copy_text(std::array<char, kLength>& to, const std::string& text) {
  to = {};
  std::copy_n(text.begin(), std::min(text.size(), kLength - 1), to.begin());
}

/// As NCCL tells hosts apart.
std::string own_host() {
  if (const auto set = process_environment("NCCL_HOSTID"); set && !set->empty()) return *set;
  std::array<char, 256> host{};
  static_cast<void>(gethostname(host.data(), host.size() - 1));
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return fmt::format("{} {}", host.data(), boot);
}

Card make_card(const Group& group, const Nccl& nccl, const cuda::Device& device, const Introduction& own) {
  Card card{};
  card.about = own;
  card.job_rank = group.job_rank();
  copy_text(card.host, own_host());
  copy_text(card.bus_id, device.pci_bus_id());
  if (group.rank() == 0) {
    const Result result = nccl.unique_id(&card.id);
    if (result != Result::kSuccess) copy_text(card.problem, nccl.error_string(result));
  }
  return card;
}

void check_versions(std::span<const Card> cards) {
  const Card& first = cards.front();
  for (const Card& card : cards) {
    if (card.about.version == first.about.version) continue;
    raise(ErrorKind::kSessionFailed, "rank {} has NCCL {}, rank {} has NCCL {}; install the same on all",
          first.job_rank, describe_version(first.about.version), card.job_rank,
          describe_version(card.about.version));
  }
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
          one->job_rank, other->job_rank, one->bus_id.data(),
          std::string(one->host.data(), std::strcspn(one->host.data(), " ")));
  }
}

}  // namespace

Agreement introduce(const Group& group, const Nccl& nccl, const cuda::Device& device,
                    const Introduction& own) {
  std::vector<Card> cards(static_cast<std::size_t>(group.size()));
  cards[static_cast<std::size_t>(group.rank())] = make_card(group, nccl, device, own);
  ring_allgather(group, std::as_writable_bytes(std::span(cards)),
                 chunk_bounds(group, cards.size(), sizeof(Card)));
  if (cards.front().problem.front() != '\0')
    raise(ErrorKind::kSessionFailed, "ncclGetUniqueId failed on rank {}: {}", cards.front().job_rank,
          cards.front().problem.data());
  check_versions(cards);
  check_devices(cards);
  Agreement agreement{cards.front().id, own.staging_bytes, true};
  for (const Card& card : cards) {
    agreement.staging_bytes = std::min(agreement.staging_bytes, card.about.staging_bytes);
    agreement.have_kernels = agreement.have_kernels && card.about.has_kernels;
  }
  return agreement;
}

}  // namespace hora::nccl
