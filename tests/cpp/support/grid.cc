#include "support/grid.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>

#include "support/calls.h"
#include "support/tensor.h"

namespace hora::testing {
namespace {

/// What a rank contributes at an index: small numbers of both signs whose sums are exact in every type; for
/// products 1 and 2 of both signs; for bool true on all, no, one and all but one rank.
double contribution(const AllreduceCase& kase, int rank, std::size_t index) {
  const auto mixed = static_cast<int>((static_cast<std::size_t>(rank) * 7 + index * 3) % 11);
  if (kase.dtype == DType::kBool) {
    const bool values[] = {true, false, mixed == 3, mixed != 3};
    return values[index % 4];
  }
  if (kase.op == ReduceOp::kProduct) return (mixed % 2 == 0 ? 1 : 2) * (mixed % 3 == 0 ? -1 : 1);
  return mixed - 5;
}

/// Something else for the other collectives, of both signs, often zero and not symmetric in rank and index.
double mark(int rank, std::size_t index) {
  const std::size_t mixed = static_cast<std::size_t>(rank) * 31 + index * 5;
  return mixed % 3 == 0 ? 0 : static_cast<double>(mixed % 199) - 99;
}

std::string text_of(const AllreduceCase& kase) {
  return fmt::format("{} of {}[{}]{}, prescale {}, postscale {}", name(kase.op), name(kase.dtype),
                     kase.length, kase.in_place ? " in place" : "", kase.factors.prescale,
                     kase.factors.postscale);
}

/// A text about the first difference, or "".
std::string difference(DType dtype, const std::vector<double>& got, const std::vector<double>& expected) {
  if (got.size() != expected.size())
    return fmt::format("{} elements instead of {}", got.size(), expected.size());
  for (std::size_t index = 0; index < got.size(); ++index) {
    if (!close_enough(dtype, got[index], expected[index]))
      return fmt::format("element {} is {} instead of {}", index, got[index], expected[index]);
  }
  return "";
}

std::vector<double> expected_allreduce(const AllreduceCase& kase, int size) {
  std::vector<double> expected(kase.length);
  std::vector<double> contributions(static_cast<std::size_t>(size));
  for (std::size_t index = 0; index < kase.length; ++index) {
    for (int rank = 0; rank < size; ++rank)
      contributions[static_cast<std::size_t>(rank)] = stored(kase.dtype, contribution(kase, rank, index));
    expected[index] = reduced(kase.dtype, kase.op, contributions, kase.factors);
  }
  return expected;
}

std::vector<double> expected_allgather(DType dtype, const std::vector<std::int64_t>& rows,
                                       std::int64_t row_length) {
  std::vector<double> expected;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    for (std::size_t index = 0; index < static_cast<std::size_t>(rows[rank] * row_length); ++index)
      expected.push_back(stored(dtype, mark(static_cast<int>(rank), index)));
  }
  return expected;
}

/// The memory of one call, alive until its result has been compared.
struct Memory {
  Tensor input;
  Bytes sent;
  Tensor output;
  bool in_place;

  Memory(DType dtype, const Shape& shape, bool is_in_place, const std::function<double(std::size_t)>& value)
      : input(dtype, shape, value), sent(input.bytes()), output(dtype, shape), in_place(is_in_place) {}

  [[nodiscard]] TensorRef output_ref() { return in_place ? input.ref() : output.ref(); }
  [[nodiscard]] const Tensor& result() const { return in_place ? input : output; }
  [[nodiscard]] bool input_is_intact() const { return in_place || input.bytes() == sent; }
};

}  // namespace

Grid::~Grid() {
  // The engine must not write to memory that goes with a test that has failed.
  if (!checks_.empty()) session_.leave();
}

void Grid::start(Call call, Compare compare) {
  call.name = fmt::format("check {}", checks_.size());
  checks_.push_back({session_.submit(std::move(call)), std::move(compare)});
}

void Grid::finish() {
  Bytes results;
  for (const Check& check : checks_) {
    wait(session_, check.handle);
    const Bytes result = check.compare(*check.handle);
    results.insert(results.end(), result.begin(), result.end());
  }
  checks_.clear();
  expect_same_on_all_ranks(session_, results);
}

void Grid::allreduce(const AllreduceCase& kase) {
  const int rank = session_.topology().rank();
  const auto memory =
      std::make_shared<Memory>(kase.dtype, Shape{static_cast<std::int64_t>(kase.length)}, kase.in_place,
                               [&](std::size_t index) { return contribution(kase, rank, index); });
  Call call = testing::allreduce("", memory->input.ref(), memory->output_ref(), kase.op);
  call.prescale = kase.factors.prescale;
  call.postscale = kase.factors.postscale;
  start(std::move(call), [=, size = session_.topology().size()](const Handle&) {
    EXPECT_EQ(difference(kase.dtype, memory->result().values(), expected_allreduce(kase, size)), "")
        << "rank " << rank << ", " << text_of(kase);
    EXPECT_TRUE(memory->input_is_intact()) << text_of(kase);
    return memory->result().bytes();
  });
}

void Grid::allgather(DType dtype, const std::vector<std::int64_t>& rows, std::int64_t row_length) {
  const int rank = session_.topology().rank();
  const Shape shape{rows[static_cast<std::size_t>(rank)], row_length};
  const auto input =
      std::make_shared<Tensor>(dtype, shape, [rank](std::size_t index) { return mark(rank, index); });
  start(testing::allgather("", input->ref()), [=](const Handle& handle) {
    const Output& output = *handle.output();
    const std::int64_t all_rows = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    EXPECT_EQ(output.shape, (Shape{all_rows, row_length}));
    EXPECT_EQ(output.sizes, rows);
    EXPECT_EQ(output.dtype, input->dtype());
    const Bytes bytes(output.data.get(), output.data.get() + output.bytes());
    EXPECT_EQ(difference(dtype, values_of(dtype, bytes), expected_allgather(dtype, rows, row_length)), "")
        << "rank " << rank << ", " << name(dtype);
    return bytes;
  });
}

void Grid::broadcast(DType dtype, std::size_t length, int root, bool in_place) {
  const int rank = session_.topology().rank();
  const Shape shape{static_cast<std::int64_t>(length)};
  const auto memory = std::make_shared<Memory>(dtype, shape, in_place,
                                               [rank](std::size_t index) { return mark(rank, index); });
  start(testing::broadcast("", memory->input.ref(), memory->output_ref(), root), [=](const Handle&) {
    const Tensor expected(dtype, shape, [root](std::size_t index) { return mark(root, index); });
    EXPECT_TRUE(memory->result().bytes() == expected.bytes())
        << "rank " << rank << ", " << name(dtype) << "[" << length << "] from " << root
        << (in_place ? " in place" : "");
    EXPECT_TRUE(memory->input_is_intact());
    return memory->result().bytes();
  });
}

void check_allreduce(Session& session, const AllreduceCase& kase) {
  Grid grid(session);
  grid.allreduce(kase);
  grid.finish();
}

void check_allgather(Session& session, DType dtype, const std::vector<std::int64_t>& rows,
                     std::int64_t row_length) {
  Grid grid(session);
  grid.allgather(dtype, rows, row_length);
  grid.finish();
}

void check_broadcast(Session& session, DType dtype, std::size_t length, int root, bool in_place) {
  Grid grid(session);
  grid.broadcast(dtype, length, root, in_place);
  grid.finish();
}

void expect_same_on_all_ranks(Session& session, const Bytes& bytes) {
  const std::size_t hash =
      std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  // The smallest of all hashes equals the largest only if all are equal.
  std::vector<std::int64_t> ends{static_cast<std::int64_t>(hash), ~static_cast<std::int64_t>(hash)};
  run(session, allreduce("same", ref(ends), ReduceOp::kMin));
  EXPECT_EQ(ends[0], ~ends[1]) << "ranks hold different bits, rank " << session.topology().rank();
}

std::vector<std::size_t> critical_lengths(int ranks, std::size_t large) {
  const auto size = static_cast<std::size_t>(ranks);
  std::vector<std::size_t> lengths{0, 1, size - 1, size, size + 1, large};
  std::ranges::sort(lengths);
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

std::vector<ReduceOp> ops_of(DType dtype) {
  if (dtype == DType::kBool) return {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};
  return {ReduceOp::kAverage, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};
}

}  // namespace hora::testing
