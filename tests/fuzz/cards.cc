// Cards with which the ranks of a process set introduce themselves before they make a communicator of NCCL.

#include <cstring>
#include <vector>

#include "backends/nccl/card.h"
#include "fuzz.h"

namespace hora::fuzz {

void take(std::span<const std::byte> input) {
  if (input.size() < sizeof(nccl::Card)) return;
  std::vector<nccl::Card> cards(input.size() / sizeof(nccl::Card));
  std::memcpy(cards.data(), input.data(), cards.size() * sizeof(nccl::Card));
  const nccl::Agreement agreement = nccl::agree(cards);
  for (const nccl::Card& card : cards) require(agreement.staging_bytes <= card.staging_bytes);
}

}  // namespace hora::fuzz
