#include "ops/numbers.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"
#include "collectives/ring.h"
#include "collectives/shared_memory/shared_memory.h"
#include "core/rank_set.h"

namespace hora {
namespace {

// No memory is so large, and what all ranks send together has to be a number.
constexpr std::size_t kMostBytes = std::size_t{1} << 62;

}  // namespace

std::vector<std::int64_t> gather_numbers(const Group& group, std::int64_t own) {
  if (group.slots() != nullptr) return shared_exchange(*group.slots(), {&own, 1});
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(group.size()));
  numbers[static_cast<std::size_t>(group.rank())] = own;
  const std::vector<std::size_t> bounds = chunk_bounds(group, numbers.size(), sizeof(std::int64_t));
  ring_allgather(group, std::as_writable_bytes(std::span(numbers)), bounds);
  return numbers;
}

std::size_t bytes_of_rows(const Group& group, int member, std::int64_t rows, std::size_t row_bytes) {
  if (rows < 0 || std::cmp_greater(rows, kMostBytes / static_cast<std::size_t>(group.size()) /
                                             std::max<std::size_t>(row_bytes, 1)))
    raise(ErrorKind::kSessionFailed, "rank {} sent what cannot be: {} rows of {} bytes",
          group.job_rank(member), rows, row_bytes);
  return static_cast<std::size_t>(rows) * row_bytes;
}

std::vector<std::size_t> row_bounds(const Group& group, std::span<const std::int64_t> rows,
                                    std::size_t row_bytes) {
  std::vector<std::size_t> bounds{0};
  for (int member = 0; const std::int64_t each : rows)
    bounds.push_back(bounds.back() + bytes_of_rows(group, member++, each, row_bytes));
  return bounds;
}

bool are_equal(std::span<const std::int64_t> numbers) {
  return std::ranges::adjacent_find(numbers, std::not_equal_to()) == numbers.end();
}

}  // namespace hora
