#include <memory>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "collectives/ring.h"
#include "ops/ops.h"

namespace hora {
namespace {

/// Every member's number of rows; exchanged among the members as the first step of the operation.
std::vector<std::int64_t> gather_rows(const Group& group, std::int64_t own_rows) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(group.size()));
  rows[static_cast<std::size_t>(group.rank())] = own_rows;
  const std::vector<std::size_t> bounds = chunk_bounds(group, rows.size(), sizeof(std::int64_t));
  ring_allgather(group, std::as_writable_bytes(std::span(rows)), bounds, group.rank());
  return rows;
}

void allgather_one(const Group& group, Submission& tensor) {
  const TensorRef& input = tensor.input;
  Output output{nullptr, input.shape, input.dtype, gather_rows(group, input.shape.front())};
  output.shape.front() = std::accumulate(output.sizes.begin(), output.sizes.end(), std::int64_t{0});

  const std::span<const std::int64_t> row_shape = std::span(input.shape).subspan(1);
  const std::size_t row_bytes = static_cast<std::size_t>(element_count(row_shape)) * size_of(input.dtype);
  std::vector<std::size_t> bounds{0};
  for (const std::int64_t rows : output.sizes) {
    bounds.push_back(bounds.back() + static_cast<std::size_t>(rows) * row_bytes);
  }
  output.data = std::make_shared_for_overwrite<std::byte[]>(bounds.back());
  const auto own = static_cast<std::size_t>(group.rank());
  std::copy_n(input.data, input.bytes(), output.data.get() + bounds[own]);
  ring_allgather(group, {output.data.get(), bounds.back()}, bounds, group.rank());
  tensor.result = std::move(output);
}

}  // namespace

void check_allgather(const Submission& submission, int) {
  if (submission.input.shape.empty()) {
    raise(ErrorKind::kMismatch,
          "a scalar has no first dimension to gather along; pass a tensor of shape [1]");
  }
}

void allgather_on_host(const HostCall& call) {
  for (Submission* tensor : call.tensors) allgather_one(call.group, *tensor);
}

}  // namespace hora
