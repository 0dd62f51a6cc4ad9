#include "backends/nccl/introduction.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <span>
#include <vector>

#include "backends/nccl/card.h"
#include "base/config.h"
#include "collectives/ring.h"

namespace hora::nccl {
namespace {

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
  card.version = own.version;
  card.staging_bytes = own.staging_bytes;
  card.has_kernels = own.has_kernels ? 1 : 0;
  card.job_rank = group.job_rank();
  copy_text(card.host, own_host());
  copy_text(card.bus_id, device.pci_bus_id());
  if (group.rank() == 0) {
    const Result result = nccl.unique_id(&card.id);
    if (result != Result::kSuccess) copy_text(card.problem, nccl.error_string(result));
  }
  return card;
}

}  // namespace

Agreement introduce(const Group& group, const Nccl& nccl, const cuda::Device& device,
                    const Introduction& own) {
  std::vector<Card> cards(static_cast<std::size_t>(group.size()));
  cards[static_cast<std::size_t>(group.rank())] = make_card(group, nccl, device, own);
  ring_allgather(group, std::as_writable_bytes(std::span(cards)),
                 chunk_bounds(group, cards.size(), sizeof(Card)));
  return agree(cards);
}

}  // namespace hora::nccl
