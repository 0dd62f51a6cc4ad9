#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "api/session.h"
#include "support/reference.h"

namespace hora::testing {

// Checks of one collective each, to be called on all ranks alike. Every rank knows what every other sends, so
// it compares its own result with the serial reference; then the ranks make sure that they hold the same
// bits. Differences are gtest failures that name the case.

/// The lengths at which chunks become empty, equal and unequal, and one that is large.
[[nodiscard]] std::vector<std::size_t> critical_lengths(int ranks, std::size_t large);

struct AllreduceCase {
  DType dtype;
  ReduceOp op;
  std::size_t length;
  bool in_place;
  Factors factors = {};

  [[nodiscard]] std::string to_string() const;
};

void check_allreduce(Session& session, const AllreduceCase& kase);

/// Every rank contributes `rows[rank]` rows of `row_length` elements.
void check_allgather(Session& session, DType dtype, const std::vector<std::int64_t>& rows,
                     std::int64_t row_length);

void check_broadcast(Session& session, DType dtype, std::size_t length, int root, bool in_place);

/// Fails unless `bytes` are equal on all ranks.
void expect_same_on_all_ranks(Session& session, std::span<const std::byte> bytes);

/// The reduce ops that are defined for a type.
[[nodiscard]] std::vector<ReduceOp> ops_of(DType dtype);

}  // namespace hora::testing
