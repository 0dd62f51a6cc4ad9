#include "support/grid.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>

#include "collectives/chunks.h"
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

/// What halves may lose when `size` of them are reduced one by one, and rounded to their type each time, as
/// NCCL does.
struct HalfLoss {
  double absolute = 0;
  double relative = 0;
};

HalfLoss half_loss(const AllreduceCase& kase, int size) {
  if (!is_half(kase.dtype) || kase.op == ReduceOp::kMin || kase.op == ReduceOp::kMax) return {};
  const double unit = (kase.dtype == DType::kFloat16 ? 0x1p-11 : 0x1p-8) * size;  // half a unit for each rank
  const double largest = 5 * std::abs(kase.factors.prescale * kase.factors.postscale);
  if (kase.op == ReduceOp::kProduct) return {0, 2 * unit};
  return {unit * largest * (kase.op == ReduceOp::kAverage ? 1 : size), 0};
}

/// A text about the first difference, or "".
std::string difference(DType dtype, const std::vector<double>& got, const std::vector<double>& expected,
                       const HalfLoss& loss = {}) {
  if (got.size() != expected.size())
    return fmt::format("{} elements instead of {}", got.size(), expected.size());
  for (std::size_t index = 0; index < got.size(); ++index) {
    const bool is_allowed =
        std::abs(got[index] - expected[index]) <= loss.absolute + loss.relative * std::abs(expected[index]);
    if (!is_allowed && !close_enough(dtype, got[index], expected[index]))
      return fmt::format("element {} is {} instead of {}", index, got[index], expected[index]);
  }
  return "";
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

std::vector<double> expected_alltoall(DType dtype, const std::vector<std::vector<std::int64_t>>& splits,
                                      int to, std::int64_t row_length) {
  std::vector<double> expected;
  for (std::size_t from = 0; from < splits.size(); ++from) {
    const auto part = splits[from].begin() + to;
    const std::int64_t first = std::accumulate(splits[from].begin(), part, std::int64_t{0}) * row_length;
    for (std::int64_t index = first; index < first + *part * row_length; ++index)
      expected.push_back(stored(dtype, mark(static_cast<int>(from), static_cast<std::size_t>(index))));
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

Grid::Grid(Session& session, const GridScope& scope)
    : session_(session),
      process_set_(scope.process_set),
      members_(session.process_set(scope.process_set)),
      rank_(static_cast<int>(std::ranges::find(members_, session.topology().rank()) - members_.begin())),
      size_(static_cast<int>(members_.size())) {
  if (tests_use_devices()) device_.emplace(session.topology().rank());
  for (int rank = 0; rank < size_; ++rank) {
    if (std::ranges::find(scope.joined, members_[static_cast<std::size_t>(rank)]) == scope.joined.end())
      present_.push_back(rank);
  }
}

Grid::~Grid() {
  // The engine must not write to memory that goes with a test that has failed.
  if (!checks_.empty()) session_.leave();
}

void Grid::start(Call call, Compare compare) {
  if (!is_grouping_) return submit(std::move(call), {std::move(compare)});
  if (grouped_compares_.empty()) {
    grouped_ = std::move(call);
  } else {
    grouped_.tensors.push_back(std::move(call.tensors.front()));
  }
  grouped_compares_.push_back(std::move(compare));
}

void Grid::group(const std::function<void()>& body) {
  is_grouping_ = true;
  body();
  is_grouping_ = false;
  submit(std::exchange(grouped_, {}), std::exchange(grouped_compares_, {}));
}

void Grid::submit(Call call, std::vector<Compare> compares) {
  call.name = fmt::format("check {}", checks_.size());
  call.process_set = process_set_;
  if (!device_) {
    checks_.push_back({session_.submit(std::move(call)), std::move(compares), nullptr});
    return;
  }
  auto on_device = std::make_unique<CallOnDevice>(*device_, std::move(call), rank_, size_);
  HandlePtr handle = session_.submit(on_device->call());
  checks_.push_back({std::move(handle), std::move(compares), std::move(on_device)});
}

/// The results that the core has allocated.
std::vector<Output> Grid::wait_for(const Check& check) {
  wait(session_, check.handle);
  return check.on_device ? check.on_device->bring_back(session_, *check.handle) : check.handle->outputs();
}

void Grid::finish() {
  Bytes results;
  for (const Check& check : checks_) {
    const std::vector<Output> outputs = wait_for(check);
    EXPECT_TRUE(outputs.empty() || outputs.size() == check.compares.size()) << outputs.size();
    for (std::size_t tensor = 0; tensor < check.compares.size(); ++tensor) {
      const Bytes result = check.compares[tensor](outputs.empty() ? nullptr : &outputs.at(tensor));
      results.insert(results.end(), result.begin(), result.end());
    }
  }
  checks_.clear();
  expect_same_on_all_ranks(session_, results, process_set_);
}

std::vector<double> Grid::expected_sum(const AllreduceCase& kase) const {
  std::vector<double> expected(kase.length);
  for (std::size_t index = 0; index < kase.length; ++index) {
    std::vector<double> contributions;
    for (const int rank : present_)
      contributions.push_back(stored(kase.dtype, contribution(kase, rank, index)));
    expected[index] = reduced(kase.dtype, kase.op, contributions, kase.factors);
  }
  return expected;
}

void Grid::allreduce(const AllreduceCase& kase) {
  const auto memory =
      std::make_shared<Memory>(kase.dtype, Shape{static_cast<std::int64_t>(kase.length)}, kase.in_place,
                               [&](std::size_t index) { return contribution(kase, rank_, index); });
  Call call = testing::allreduce("", memory->input.ref(), memory->output_ref(), kase.op);
  call.prescale = kase.factors.prescale;
  call.postscale = kase.factors.postscale;
  start(std::move(call), [=, this](const Output*) {
    EXPECT_EQ(difference(kase.dtype, memory->result().values(), expected_sum(kase),
                         device_ ? half_loss(kase, size_) : HalfLoss()),
              "")
        << "rank " << rank_ << ", " << text_of(kase);
    EXPECT_TRUE(memory->input_is_intact()) << text_of(kase);
    return memory->result().bytes();
  });
}

void Grid::allgather(DType dtype, std::vector<std::int64_t> rows, std::int64_t row_length) {
  for (int rank = 0; rank < size_; ++rank) {
    if (!std::ranges::binary_search(present_, rank)) rows[static_cast<std::size_t>(rank)] = 0;
  }
  const Shape shape{rows[static_cast<std::size_t>(rank_)], row_length};
  const auto input =
      std::make_shared<Tensor>(dtype, shape, [this](std::size_t index) { return mark(rank_, index); });
  start(testing::allgather("", input->ref()), [=, this](const Output* result) {
    const Output& output = *result;
    const std::int64_t all_rows = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    EXPECT_EQ(output.shape, (Shape{all_rows, row_length}));
    EXPECT_EQ(output.sizes, rows);
    EXPECT_EQ(output.dtype, input->dtype());
    const Bytes bytes(output.data.get(), output.data.get() + output.bytes());
    EXPECT_EQ(difference(dtype, values_of(dtype, bytes), expected_allgather(dtype, rows, row_length)), "")
        << "rank " << rank_ << ", " << name(dtype);
    return bytes;
  });
}

void Grid::alltoall(DType dtype, std::vector<std::vector<std::int64_t>> splits, std::int64_t row_length) {
  for (int rank = 0; rank < size_; ++rank) {
    if (!std::ranges::binary_search(present_, rank))
      splits[static_cast<std::size_t>(rank)].assign(static_cast<std::size_t>(size_), 0);
  }
  const std::vector<std::int64_t>& sent = splits[static_cast<std::size_t>(rank_)];
  const Shape shape{std::accumulate(sent.begin(), sent.end(), std::int64_t{0}), row_length};
  const auto input =
      std::make_shared<Tensor>(dtype, shape, [this](std::size_t index) { return mark(rank_, index); });
  start(testing::alltoall("", input->ref(), sent), [=, this](const Output* result) {
    const Output& output = *result;
    std::vector<std::int64_t> received;
    for (const auto& row : splits) received.push_back(row[static_cast<std::size_t>(rank_)]);
    EXPECT_EQ(output.sizes, received);
    EXPECT_EQ(output.shape,
              (Shape{std::accumulate(received.begin(), received.end(), std::int64_t{0}), row_length}));
    EXPECT_EQ(output.dtype, input->dtype());
    EXPECT_EQ(difference(dtype, values_of(dtype, {output.data.get(), output.bytes()}),
                         expected_alltoall(dtype, splits, rank_, row_length)),
              "")
        << "rank " << rank_ << ", " << name(dtype) << "[*," << row_length << "]";
    return Bytes();
  });
}

void Grid::reducescatter(const ReducescatterCase& kase) {
  const AllreduceCase whole{kase.dtype, kase.op, static_cast<std::size_t>(kase.rows * kase.row_length), false,
                            kase.factors};
  const Chunks rows(static_cast<std::size_t>(kase.rows), size_);
  const auto row_length = static_cast<std::size_t>(kase.row_length);
  const auto own_rows = static_cast<std::int64_t>(rows.length(rank_));
  const auto input =
      std::make_shared<Tensor>(kase.dtype, Shape{kase.rows, kase.row_length},
                               [&](std::size_t index) { return contribution(whole, rank_, index); });
  const auto output = std::make_shared<Tensor>(kase.dtype, Shape{own_rows, kase.row_length});
  const auto sent = std::make_shared<Bytes>(input->bytes());
  Call call = testing::reducescatter("", input->ref(), output->ref(), kase.op);
  call.prescale = kase.factors.prescale;
  call.postscale = kase.factors.postscale;
  start(std::move(call), [=, this](const Output*) {
    const std::vector<double> all = expected_sum(whole);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(rows.first(rank_) * row_length);
    const std::vector<double> own(first, first + static_cast<std::ptrdiff_t>(output->count()));
    EXPECT_EQ(difference(kase.dtype, output->values(), own, device_ ? half_loss(whole, size_) : HalfLoss()),
              "")
        << "rank " << rank_ << ", " << kase.rows << " rows of " << text_of(whole);
    EXPECT_TRUE(input->bytes() == *sent) << text_of(whole);
    return Bytes();
  });
}

void Grid::broadcast(DType dtype, std::size_t length, int root, bool in_place) {
  const Shape shape{static_cast<std::int64_t>(length)};
  const auto memory = std::make_shared<Memory>(dtype, shape, in_place,
                                               [this](std::size_t index) { return mark(rank_, index); });
  const int job_rank = members_[static_cast<std::size_t>(root)];
  start(testing::broadcast("", memory->input.ref(), memory->output_ref(), job_rank),
        [=, this](const Output*) {
          const Tensor expected(dtype, shape, [root](std::size_t index) { return mark(root, index); });
          EXPECT_TRUE(memory->result().bytes() == expected.bytes())
              << "rank " << rank_ << ", " << name(dtype) << "[" << length << "] from " << root
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

void expect_same_on_all_ranks(Session& session, const Bytes& bytes, std::int32_t process_set) {
  const std::size_t hash =
      std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  // The smallest of all hashes equals the largest only if all are equal.
  std::vector<std::int64_t> ends{static_cast<std::int64_t>(hash), ~static_cast<std::int64_t>(hash)};
  run(session, on(process_set, allreduce("same", ref(ends), ReduceOp::kMin)));
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
