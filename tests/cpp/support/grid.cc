#include "support/grid.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "support/calls.h"
#include "support/tensor.h"

namespace hora::testing {
namespace {

/// What a rank contributes at an index: small numbers of both signs whose sums are exact in every type, or
/// for products 1 and 2 of both signs.
double contribution(ReduceOp op, int rank, std::size_t index) {
  const auto mixed = static_cast<int>((static_cast<std::size_t>(rank) * 7 + index * 3) % 11);
  if (op == ReduceOp::kProduct) return (mixed % 2 == 0 ? 1 : 2) * (mixed % 3 == 0 ? -1 : 1);
  return mixed - 5;
}

/// Something else for the other collectives, of both signs and not symmetric in rank and index.
double mark(int rank, std::size_t index) {
  return static_cast<double>((static_cast<std::size_t>(rank) * 31 + index * 5) % 199) - 99;
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
      contributions[static_cast<std::size_t>(rank)] = stored(kase.dtype, contribution(kase.op, rank, index));
    expected[index] = reduced(kase.dtype, kase.op, contributions, kase.factors);
  }
  return expected;
}

}  // namespace

std::vector<std::size_t> critical_lengths(int ranks, std::size_t large) {
  const auto size = static_cast<std::size_t>(ranks);
  std::vector<std::size_t> lengths{0, 1, size - 1, size, size + 1, large};
  std::ranges::sort(lengths);
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

std::string AllreduceCase::to_string() const {
  return fmt::format("{} of {}[{}]{}, prescale {}, postscale {}", name(op), name(dtype), length,
                     in_place ? " in place" : "", factors.prescale, factors.postscale);
}

void check_allreduce(Session& session, const AllreduceCase& kase) {
  const int rank = session.topology().rank();
  const Shape shape{static_cast<std::int64_t>(kase.length)};
  Tensor input(kase.dtype, shape, [&](std::size_t index) { return contribution(kase.op, rank, index); });
  const Bytes sent = input.bytes();
  Tensor output(kase.dtype, shape);
  Call call = allreduce("grid", input.ref(), kase.in_place ? input.ref() : output.ref(), kase.op);
  call.prescale = kase.factors.prescale;
  call.postscale = kase.factors.postscale;
  run(session, std::move(call));

  const Tensor& result = kase.in_place ? input : output;
  EXPECT_EQ(difference(kase.dtype, result.values(), expected_allreduce(kase, session.topology().size())), "")
      << "rank " << rank << ", " << kase.to_string();
  EXPECT_TRUE(kase.in_place || input.bytes() == sent) << kase.to_string() << " changed its input";
  expect_same_on_all_ranks(session, result.bytes());
}

void check_allgather(Session& session, DType dtype, const std::vector<std::int64_t>& rows,
                     std::int64_t row_length) {
  const int rank = session.topology().rank();
  const std::int64_t own_rows = rows[static_cast<std::size_t>(rank)];
  Tensor input(dtype, {own_rows, row_length}, [&](std::size_t index) { return mark(rank, index); });
  const HandlePtr handle = run(session, allgather("grid", input.ref()));

  std::vector<double> expected;
  for (int from = 0; from < session.topology().size(); ++from) {
    const auto count = static_cast<std::size_t>(rows[static_cast<std::size_t>(from)] * row_length);
    for (std::size_t index = 0; index < count; ++index) expected.push_back(stored(dtype, mark(from, index)));
  }
  ASSERT_NE(handle->output(), nullptr);
  const Output& output = *handle->output();
  const std::int64_t all_rows = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  EXPECT_EQ(output.shape, (Shape{all_rows, row_length}));
  EXPECT_EQ(output.sizes, rows);
  EXPECT_EQ(output.dtype, dtype);
  const std::span<const std::byte> bytes(output.data.get(), output.bytes());
  EXPECT_EQ(difference(dtype, values_of(dtype, bytes), expected), "")
      << "rank " << rank << ", " << name(dtype);
  expect_same_on_all_ranks(session, bytes);
}

void check_broadcast(Session& session, DType dtype, std::size_t length, int root, bool in_place) {
  const int rank = session.topology().rank();
  const Shape shape{static_cast<std::int64_t>(length)};
  Tensor input(dtype, shape, [&](std::size_t index) { return mark(rank, index); });
  const Bytes sent = input.bytes();
  Tensor output(dtype, shape);
  run(session, broadcast("grid", input.ref(), in_place ? input.ref() : output.ref(), root));

  const Tensor expected(dtype, shape, [&](std::size_t index) { return mark(root, index); });
  const Tensor& result = in_place ? input : output;
  EXPECT_TRUE(result.bytes() == expected.bytes()) << "rank " << rank << ", " << name(dtype) << "[" << length
                                                  << "] from " << root << (in_place ? " in place" : "");
  EXPECT_TRUE(in_place || input.bytes() == sent) << "broadcast changed its input";
}

void expect_same_on_all_ranks(Session& session, std::span<const std::byte> bytes) {
  const std::size_t hash =
      std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  // The smallest of all hashes equals the largest only if all are equal.
  std::vector<std::int64_t> ends{static_cast<std::int64_t>(hash), ~static_cast<std::int64_t>(hash)};
  run(session, allreduce("same", ref(ends), ReduceOp::kMin));
  EXPECT_EQ(ends[0], ~ends[1]) << "ranks hold different bits, rank " << session.topology().rank();
}

std::vector<ReduceOp> ops_of(DType dtype) {
  if (dtype == DType::kBool) return {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};
  return {ReduceOp::kAverage, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};
}

}  // namespace hora::testing
