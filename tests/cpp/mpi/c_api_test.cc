// Every collective through the C interface, on all ranks of the job.

#include <gmock/gmock.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "api/hora.h"

namespace hora::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr double kLongWait = 60.0;

class MpiCApi : public ::testing::Test {
 protected:
  MpiCApi() {
    EXPECT_EQ(hora_init(), HORA_OK) << hora_last_error();
    rank = hora_rank();
    size = hora_size();
  }
  ~MpiCApi() override { EXPECT_EQ(hora_shutdown(), HORA_OK); }

  void complete(int started) {
    ASSERT_EQ(started, HORA_OK) << hora_last_error();
    ASSERT_EQ(hora_wait(handle, kLongWait), HORA_OK) << hora_last_error();
  }
  void release() { EXPECT_EQ(hora_release(std::exchange(handle, nullptr)), HORA_OK) << hora_last_error(); }

  /// The values of the handle's output; it must be one dimension of int32.
  [[nodiscard]] std::vector<std::int32_t> output(std::vector<std::int64_t>* rows = nullptr) {
    hora_output output{};
    EXPECT_EQ(hora_get_output(handle, 0, &output), HORA_OK) << hora_last_error();
    EXPECT_EQ(output.ndim, 1);
    EXPECT_EQ(output.dtype, HORA_INT32);
    if (rows != nullptr) rows->assign(output.rows, output.rows + output.members);
    const auto* const data = static_cast<const std::int32_t*>(output.data);
    return {data, data + output.shape[0]};
  }

  [[nodiscard]] static hora_tensor tensor(const std::vector<std::int32_t>& input, std::int32_t* output,
                                          const std::int64_t& length) {
    return {input.data(), output, &length, 1, HORA_INT32, HORA_HOST, 0};
  }

  int rank = 0;
  int size = 0;
  hora_handle* handle = nullptr;
};

TEST_F(MpiCApi, allreduce) {
  const std::int64_t length = 1000;
  const std::vector<std::int32_t> input(length, rank + 1);
  std::vector<std::int32_t> sums(length);
  std::vector<std::int32_t> largest(length);
  const hora_tensor sum = tensor(input, sums.data(), length);
  complete(hora_allreduce_async(&sum, 1, HORA_SUM, 1.0, 1.0, "sum", HORA_GLOBAL_SET, &handle));
  release();
  EXPECT_THAT(sums, Each(size * (size + 1) / 2));
  const hora_tensor max = tensor(input, largest.data(), length);
  complete(hora_allreduce_async(&max, 1, HORA_MAX, 1.0, 1.0, nullptr, HORA_GLOBAL_SET, &handle));
  release();
  EXPECT_THAT(largest, Each(size));
}

TEST_F(MpiCApi, allgather) {
  const std::int64_t length = rank + 1;
  const std::vector<std::int32_t> input(static_cast<std::size_t>(length), rank);
  const hora_tensor own = tensor(input, nullptr, length);
  complete(hora_allgather_async(&own, 1, "rows", HORA_GLOBAL_SET, &handle));
  std::vector<std::int32_t> expected;
  std::vector<std::int64_t> expected_rows;
  for (int peer = 0; peer < size; ++peer) {
    expected.insert(expected.end(), static_cast<std::size_t>(peer) + 1, peer);
    expected_rows.push_back(peer + 1);
  }
  std::vector<std::int64_t> rows;
  EXPECT_EQ(output(&rows), expected);
  EXPECT_EQ(rows, expected_rows);
  release();
}

TEST_F(MpiCApi, broadcast) {
  const std::int64_t length = 3;
  for (int root = 0; root < size; ++root) {
    std::vector<std::int32_t> values(length, 10 * rank);
    const hora_tensor all = tensor(values, values.data(), length);
    complete(hora_broadcast_async(&all, 1, root, "root", HORA_GLOBAL_SET, &handle));
    release();
    EXPECT_THAT(values, Each(10 * root));
  }
}

TEST_F(MpiCApi, alltoall) {
  const std::int64_t length = size;
  const std::vector<std::int32_t> input(static_cast<std::size_t>(size), rank);
  const std::vector<std::int64_t> splits(static_cast<std::size_t>(size), 1);
  const hora_tensor own = tensor(input, nullptr, length);
  complete(hora_alltoall_async(&own, splits.data(), size, nullptr, HORA_GLOBAL_SET, &handle));
  std::vector<std::int32_t> expected(static_cast<std::size_t>(size));
  std::iota(expected.begin(), expected.end(), 0);
  std::vector<std::int64_t> rows;
  EXPECT_EQ(output(&rows), expected);
  EXPECT_EQ(rows, splits);
  release();
}

TEST_F(MpiCApi, reducescatter) {
  const std::int64_t length = size + 1;  // one row more for the first rank
  std::vector<std::int32_t> input(static_cast<std::size_t>(length));
  std::iota(input.begin(), input.end(), 0);
  std::vector<std::int32_t> share(rank == 0 ? 2 : 1);
  const hora_tensor own = tensor(input, share.data(), length);
  complete(hora_reducescatter_async(&own, 1, HORA_SUM, 1.0, 1.0, nullptr, HORA_GLOBAL_SET, &handle));
  release();
  const int first = rank == 0 ? 0 : rank + 1;
  EXPECT_EQ(share.front(), size * first);
  EXPECT_EQ(share.back(), rank == 0 ? size : size * first);
}

TEST_F(MpiCApi, barrier_and_join) {
  complete(hora_barrier_async(HORA_GLOBAL_SET, &handle));
  release();
  complete(hora_join_async(&handle));
  std::int64_t last = -1;
  EXPECT_EQ(hora_get_value(handle, &last), HORA_OK);
  EXPECT_GE(last, 0);
  EXPECT_LT(last, size);
  release();
}

TEST_F(MpiCApi, process_sets) {
  const std::int32_t ranks[] = {0, size - 1};
  complete(hora_add_process_set_async(ranks, 2, &handle));
  std::int64_t set = 0;
  EXPECT_EQ(hora_get_value(handle, &set), HORA_OK);
  release();
  if (rank == 0 || rank == size - 1) {
    const std::int64_t length = 5;
    std::vector<std::int32_t> values(length, 1);
    const hora_tensor own = tensor(values, values.data(), length);
    complete(
        hora_allreduce_async(&own, 1, HORA_SUM, 1.0, 1.0, nullptr, static_cast<std::int32_t>(set), &handle));
    release();
    EXPECT_THAT(values, Each(2));
  }
  complete(hora_remove_process_set_async(static_cast<std::int32_t>(set), &handle));
  release();
}

TEST_F(MpiCApi, what_one_rank_passes_wrongly_fails_on_the_others) {
  const std::int64_t length = 2;
  std::vector<std::int32_t> values(length, 1);
  hora_tensor own = tensor(values, values.data(), length);
  if (rank == 1) own.dtype = 99;
  const int started = hora_allreduce_async(&own, 1, HORA_SUM, 1.0, 1.0, "x", HORA_GLOBAL_SET, &handle);
  if (rank == 1) {
    EXPECT_EQ(started, HORA_INVALID_ARGUMENT);
  } else {
    ASSERT_EQ(started, HORA_OK);
    EXPECT_EQ(hora_wait(handle, kLongWait), HORA_MISMATCH);
    EXPECT_THAT(hora_last_error(), HasSubstr("dtype is unknown"));
    release();
  }
  complete(hora_barrier_async(HORA_GLOBAL_SET, &handle));  // nobody leaves before all have heard of it
  release();
}

TEST_F(MpiCApi, a_mismatch_is_an_error_on_all_ranks) {
  const std::int64_t length = rank == 1 ? 3 : 2;
  std::vector<std::int32_t> values(3, 1);
  const hora_tensor own = tensor(values, values.data(), length);
  ASSERT_EQ(hora_allreduce_async(&own, 1, HORA_SUM, 1.0, 1.0, "x", HORA_GLOBAL_SET, &handle), HORA_OK);
  EXPECT_EQ(hora_wait(handle, kLongWait), HORA_MISMATCH);
  EXPECT_THAT(hora_last_error(), HasSubstr("\n  1      [3]"));
  release();
}

TEST_F(MpiCApi, a_handle_under_way_times_out_and_is_not_released) {
  const std::int64_t length = 2;
  std::vector<std::int32_t> values(length, 1);
  const hora_tensor own = tensor(values, values.data(), length);
  const auto start = [&] {
    return hora_allreduce_async(&own, 1, HORA_SUM, 1.0, 1.0, "x", HORA_GLOBAL_SET, &handle);
  };
  if (rank == 0) {
    ASSERT_EQ(start(), HORA_OK);
    int is_complete = 1;
    std::int64_t value = 0;
    EXPECT_EQ(hora_poll(handle, &is_complete), HORA_OK);
    EXPECT_EQ(is_complete, 0);
    EXPECT_EQ(hora_wait(handle, 0.001), HORA_TIMEOUT);
    EXPECT_EQ(hora_get_value(handle, &value), HORA_INVALID_ARGUMENT);
    EXPECT_EQ(hora_release(handle), HORA_INVALID_ARGUMENT);
    EXPECT_THAT(hora_last_error(), HasSubstr("under way"));
  }
  hora_handle* const first = std::exchange(handle, nullptr);
  complete(hora_barrier_async(HORA_GLOBAL_SET, &handle));
  release();
  handle = first;
  if (rank != 0) {
    ASSERT_EQ(start(), HORA_OK);
  }
  EXPECT_EQ(hora_wait(handle, kLongWait), HORA_OK);
  release();
  EXPECT_THAT(values, Each(size));
}

TEST_F(MpiCApi, shutdown_completes_what_is_under_way) {
  const std::int64_t length = 2;
  std::vector<std::int32_t> values(length, 1);
  const hora_tensor own = tensor(values, values.data(), length);
  const std::string name = "only on rank " + std::to_string(rank);
  ASSERT_EQ(hora_allreduce_async(&own, 1, HORA_SUM, 1.0, 1.0, name.c_str(), HORA_GLOBAL_SET, &handle),
            HORA_OK);
  hora_handle* const pending = std::exchange(handle, nullptr);
  complete(hora_barrier_async(HORA_GLOBAL_SET, &handle));  // all have made their calls
  release();
  handle = pending;
  EXPECT_EQ(hora_shutdown(), HORA_OK);
  EXPECT_EQ(hora_wait(handle, 0), HORA_SESSION_FAILED);
  release();
}

}  // namespace
}  // namespace hora::testing
