#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "backends/nccl/introduction.h"

namespace hora::nccl {

/// What a rank tells about itself, as it travels.
struct Card {
  UniqueId id;
  int version;
  std::size_t staging_bytes;
  std::uint8_t has_kernels;
  int job_rank;
  std::array<char, 256> host;  ///< where its GPU is; NCCL, too, takes equal bus ids on one host for one GPU
  std::array<char, 32> bus_id;
  std::array<char, 200> problem;  ///< of making the unique id
};

template <std::size_t kLength>
void copy_text(std::array<char, kLength>& to, const std::string& text) {
  to = {};
  std::copy_n(text.begin(), std::min(text.size(), kLength - 1), to.begin());
}

/// What the cards of all members of a group come to; the same on all of them. See `introduce`.
[[nodiscard]] Agreement agree(std::span<const Card> cards);

}  // namespace hora::nccl
