#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/request.h"
#include "core/route.h"

namespace hora {

/// One call of a batch. Carries its full signature, so that a rank that has not called can take part too.
struct BatchEntry {
  Key key;
  SharedSignature signature;
  std::uint32_t id = 0;  ///< short name for later announcements; 0 when it has none
};

/// What all ranks agreed to do next: one op over calls that only differ in names and shapes, or one error.
struct Batch {
  std::vector<BatchEntry> entries;
  std::uint64_t number = 0;       ///< place in the job's sequence
  std::uint64_t piece_bytes = 0;  ///< largest single message, chosen by the root
  Route route;                    ///< how data moves, chosen by the root
  int contributors = 0;    ///< ranks that take part with data; fewer than the set has when some have joined
  int divisor = 0;         ///< what Average divides by
  std::int64_t value = 0;  ///< what the root decided: the last rank to join, or the id of a process set
  std::string error;       ///< not empty: the entry fails with this text on every rank

  [[nodiscard]] std::int32_t process_set() const { return entries.front().key.process_set; }
  [[nodiscard]] const Signature& signature() const { return *entries.front().signature; }
};

/// A rank that leaves the job in order.
struct Departure {
  int rank = 0;
  std::string reason;
};

/// The next part of the job's one sequence of batches, as the root orders it; all of one process set. A
/// departure is always the last thing of a session.
struct Plan {
  std::int32_t process_set = kGlobalSet;
  std::vector<Batch> batches;
  std::optional<Departure> departure;
};

}  // namespace hora
