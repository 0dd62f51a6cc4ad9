#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/group.h"

namespace hora {

/// Every member's number, in the order of ranks. Collective over the group.
[[nodiscard]] std::vector<std::int64_t> gather_numbers(const Group& group, std::int64_t own);

/// How many bytes the rows take that a member has told of. Throws Error(kSessionFailed), which names it,
/// where they cannot be so many.
[[nodiscard]] std::size_t bytes_of_rows(const Group& group, int member, std::int64_t rows,
                                        std::size_t row_bytes);

/// Where the rows of each member begin, when they follow each other, and where the last end, in bytes. Throws
/// like `bytes_of_rows`.
[[nodiscard]] std::vector<std::size_t> row_bounds(const Group& group, std::span<const std::int64_t> rows,
                                                  std::size_t row_bytes);

[[nodiscard]] bool are_equal(std::span<const std::int64_t> numbers);

}  // namespace hora
