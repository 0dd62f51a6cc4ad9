#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/request.h"

namespace hora {

/// One tensor of a batch. Carries its full signature, so that a rank without the tensor could take part too.
struct BatchEntry {
  Key key;
  Signature signature;
  std::uint32_t id = 0;  ///< short name for later announcements; 0 when it has none
};

/// What all ranks agreed to do next: one op over tensors that only differ in name and shape, or one error.
struct Batch {
  std::vector<BatchEntry> entries;
  std::uint64_t piece_bytes = 0;  ///< largest single message, chosen by the root
  std::string error;              ///< not empty: the entry fails with this text on every rank

  [[nodiscard]] const Signature& signature() const { return entries.front().signature; }
};

/// A rank that leaves the job in order.
struct Departure {
  int rank = 0;
  std::string reason;
};

/// The next part of the job's one sequence of batches, as the root orders it. A departure is always the last
/// thing of a session.
struct Plan {
  std::vector<Batch> batches;
  std::optional<Departure> departure;
};

}  // namespace hora
