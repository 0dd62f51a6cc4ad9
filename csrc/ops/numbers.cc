#include "ops/numbers.h"

#include <algorithm>
#include <functional>
#include <span>

#include "collectives/ring.h"
#include "collectives/shared_memory/shared_memory.h"

namespace hora {

std::vector<std::int64_t> gather_numbers(const Group& group, std::int64_t own) {
  if (group.slots() != nullptr) return shared_exchange(*group.slots(), {&own, 1});
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(group.size()));
  numbers[static_cast<std::size_t>(group.rank())] = own;
  const std::vector<std::size_t> bounds = chunk_bounds(group, numbers.size(), sizeof(std::int64_t));
  ring_allgather(group, std::as_writable_bytes(std::span(numbers)), bounds);
  return numbers;
}

bool are_equal(std::span<const std::int64_t> numbers) {
  return std::ranges::adjacent_find(numbers, std::not_equal_to()) == numbers.end();
}

}  // namespace hora
