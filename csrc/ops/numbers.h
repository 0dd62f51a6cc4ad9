#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/group.h"

namespace hora {

/// Every member's number, in the order of ranks. Collective over the group.
[[nodiscard]] std::vector<std::int64_t> gather_numbers(const Group& group, std::int64_t own);

[[nodiscard]] bool are_equal(std::span<const std::int64_t> numbers);

}  // namespace hora
