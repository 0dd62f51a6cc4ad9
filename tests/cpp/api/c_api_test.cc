// The C interface in a job of one rank: what it converts, whom it tells what went wrong, and who owns what.

#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/default_session.h"
#include "api/hora.h"

namespace hora::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr double kLongWait = 60.0;

class CApi : public ::testing::Test {
 protected:
  CApi() { EXPECT_EQ(hora_init(), HORA_OK) << hora_last_error(); }
  ~CApi() override { EXPECT_EQ(hora_shutdown(), HORA_OK); }

  /// Two values in place.
  [[nodiscard]] hora_tensor tensor() {
    return {values.data(), values.data(), &length, 1, HORA_FLOAT32, HORA_HOST, 0};
  }
  [[nodiscard]] int allreduce(const hora_tensor& tensor, const char* name = nullptr,
                              std::int32_t reduce_op = HORA_SUM) {
    return hora_allreduce_async(&tensor, 1, reduce_op, 1.0, 1.0, name, HORA_GLOBAL_SET, &handle);
  }
  void expect_refused(int status, const std::string& reason) {
    EXPECT_EQ(status, HORA_INVALID_ARGUMENT);
    EXPECT_THAT(hora_last_error(), HasSubstr(reason));
    EXPECT_EQ(handle, nullptr);
  }
  void wait_and_release() {
    EXPECT_EQ(hora_wait(handle, kLongWait), HORA_OK) << hora_last_error();
    EXPECT_EQ(hora_release(handle), HORA_OK) << hora_last_error();
    handle = nullptr;
  }

  std::vector<float> values{1, 2};
  std::int64_t length = 2;
  hora_handle* handle = nullptr;
};

TEST(CApiWithoutSession, says_that_there_is_none) {
  hora_handle* handle = nullptr;
  EXPECT_EQ(hora_is_initialized(), 0);
  EXPECT_EQ(hora_rank(), -1);
  EXPECT_THAT(hora_last_error(), HasSubstr("init()"));
  EXPECT_EQ(hora_barrier_async(HORA_GLOBAL_SET, &handle), HORA_NOT_INITIALIZED);
  EXPECT_EQ(handle, nullptr);
  EXPECT_EQ(hora_shutdown(), HORA_OK);
}

TEST(CApiWithoutSession, a_bad_setting_is_refused_at_init) {
  ::setenv("HORA_PIECE_BYTES", "lots", 1);
  EXPECT_EQ(hora_init(), HORA_INVALID_ARGUMENT);
  EXPECT_THAT(hora_last_error(), HasSubstr("HORA_PIECE_BYTES=lots"));
  ::unsetenv("HORA_PIECE_BYTES");
  EXPECT_EQ(hora_is_initialized(), 0);
}

TEST_F(CApi, works_on_the_session_of_all_languages) {
  EXPECT_EQ(hora_abi_version(), HORA_ABI_VERSION);
  EXPECT_EQ(hora_is_initialized(), 1);
  EXPECT_EQ(hora_init(), HORA_OK);
  EXPECT_TRUE(has_default_session());
  EXPECT_THAT((std::vector{hora_rank(), hora_size(), hora_local_rank(), hora_local_size(), hora_cross_rank(),
                           hora_cross_size()}),
              ElementsAre(0, 1, 0, 1, 0, 1));
}

TEST_F(CApi, the_last_error_belongs_to_its_thread_and_outlives_success) {
  EXPECT_EQ(hora_release(nullptr), HORA_OK);
  expect_refused(allreduce({}), "");
  const std::string text = hora_last_error();
  EXPECT_NE(text, "");
  std::thread([] { EXPECT_STREQ(hora_last_error(), ""); }).join();
  ASSERT_EQ(allreduce(tensor()), HORA_OK);
  wait_and_release();
  EXPECT_EQ(hora_last_error(), text);
}

TEST_F(CApi, scales_every_tensor_of_a_call) {
  double scalar = 3;
  const hora_tensor tensors[] = {tensor(), {&scalar, &scalar, nullptr, 0, HORA_FLOAT64, HORA_HOST, 0}};
  ASSERT_EQ(hora_allreduce_async(tensors, 2, HORA_SUM, 2.0, 5.0, "group", HORA_GLOBAL_SET, &handle), HORA_OK);
  wait_and_release();
  EXPECT_THAT(values, ElementsAre(10, 20));
  EXPECT_EQ(scalar, 30);
}

TEST_F(CApi, takes_tensors_without_elements_or_memory) {
  const std::int64_t shape[] = {0, 3};
  const hora_tensor empty{nullptr, nullptr, shape, 2, HORA_INT8, HORA_HOST, 0};
  ASSERT_EQ(hora_allgather_async(&empty, 1, nullptr, HORA_GLOBAL_SET, &handle), HORA_OK) << hora_last_error();
  wait_and_release();
  ASSERT_EQ(allreduce(empty), HORA_OK) << hora_last_error();
  wait_and_release();
}

TEST_F(CApi, refuses_what_the_core_could_not_bear) {
  const std::int64_t negative = -1;
  const auto changed = [&](auto change) {
    hora_tensor wrong = tensor();
    change(wrong);
    return allreduce(wrong, "x");
  };
  expect_refused(changed([](hora_tensor& wrong) { wrong.dtype = 10; }), "allreduce 'x': a tensor's dtype");
  expect_refused(changed([](hora_tensor& wrong) { wrong.dtype = -1; }), "dtype");
  expect_refused(changed([](hora_tensor& wrong) { wrong.device = 1; }), "HORA_HOST");
  expect_refused(changed([](hora_tensor& wrong) { wrong.reserved = 1; }), "reserved");
  expect_refused(changed([](hora_tensor& wrong) { wrong.ndim = -1; }), "ndim");
  expect_refused(changed([](hora_tensor& wrong) { wrong.shape = nullptr; }), "shape is NULL");
  expect_refused(changed([&](hora_tensor& wrong) { wrong.shape = &negative; }), "negative extent");
  expect_refused(changed([](hora_tensor& wrong) { wrong.input = nullptr; }), "input is NULL");
  expect_refused(changed([](hora_tensor& wrong) { wrong.output = nullptr; }), "output is NULL");
  expect_refused(allreduce(tensor(), "x", 6), "reduce_op");
  expect_refused(hora_allgather_async(nullptr, 1, nullptr, HORA_GLOBAL_SET, &handle), "at least one tensor");
  expect_refused(hora_broadcast_async(nullptr, 0, 0, nullptr, HORA_GLOBAL_SET, &handle), "at least one");
  const hora_tensor right = tensor();
  expect_refused(hora_alltoall_async(&right, nullptr, 1, nullptr, HORA_GLOBAL_SET, &handle), "splits");
  EXPECT_EQ(hora_barrier_async(HORA_GLOBAL_SET, nullptr), HORA_INVALID_ARGUMENT);
  // The name is free and the job goes on.
  ASSERT_EQ(allreduce(tensor(), "x"), HORA_OK) << hora_last_error();
  wait_and_release();
}

TEST_F(CApi, refuses_what_the_core_refuses) {
  const hora_tensor right = tensor();
  const std::int64_t splits[] = {1};
  expect_refused(hora_alltoall_async(&right, splits, 1, "x", HORA_GLOBAL_SET, &handle), "add up to 1");
  expect_refused(hora_broadcast_async(&right, 1, 1, "x", HORA_GLOBAL_SET, &handle), "broadcast 'x'");
  expect_refused(hora_barrier_async(7, &handle), "no process set 7");
}

TEST_F(CApi, a_process_set_has_ascending_ranks_of_the_job) {
  const std::int32_t twice[] = {0, 0};
  expect_refused(hora_add_process_set_async(twice, 2, &handle), "ascending");
  const std::int32_t unknown = 3;
  expect_refused(hora_add_process_set_async(&unknown, 1, &handle), "rank 3");
  expect_refused(hora_add_process_set_async(nullptr, 1, &handle), "at least one rank");
  expect_refused(hora_remove_process_set_async(5, &handle), "no process set 5");
}

TEST_F(CApi, a_name_is_in_use_until_its_handle_was_seen_complete) {
  ASSERT_EQ(allreduce(tensor(), "x"), HORA_OK);
  hora_handle* const first = std::exchange(handle, nullptr);
  expect_refused(allreduce(tensor(), "x"), "still in flight");
  for (int complete = 0; complete == 0;) ASSERT_EQ(hora_poll(first, &complete), HORA_OK);
  ASSERT_EQ(allreduce(tensor(), "x"), HORA_OK) << hora_last_error();
  // The name is now another call's, which the first handle must not free.
  EXPECT_EQ(hora_wait(first, 0), HORA_OK);
  EXPECT_EQ(hora_release(first), HORA_OK);
  hora_handle* const second = std::exchange(handle, nullptr);
  expect_refused(allreduce(tensor(), "x"), "still in flight");
  handle = second;
  wait_and_release();
}

TEST_F(CApi, a_wait_takes_any_timeout) {
  for (const double timeout : {kLongWait, 1e300, HUGE_VAL}) {
    ASSERT_EQ(allreduce(tensor()), HORA_OK);
    EXPECT_EQ(hora_wait(handle, timeout), HORA_OK);
    for (const double none : {0.0, -1.0, -HUGE_VAL, std::nan("")})
      EXPECT_EQ(hora_wait(handle, none), HORA_OK);
    wait_and_release();
  }
}

TEST_F(CApi, outputs_belong_to_the_handle) {
  const std::int64_t shape[] = {1, 2};
  const hora_tensor tensor{values.data(), nullptr, shape, 2, HORA_FLOAT32, HORA_HOST, 0};
  ASSERT_EQ(hora_allgather_async(&tensor, 1, nullptr, HORA_GLOBAL_SET, &handle), HORA_OK);
  ASSERT_EQ(hora_wait(handle, kLongWait), HORA_OK);
  ASSERT_EQ(hora_shutdown(), HORA_OK);
  values.assign(2, 0);
  hora_output output;
  ASSERT_EQ(hora_get_output(handle, 0, &output), HORA_OK) << hora_last_error();
  EXPECT_THAT(std::vector(output.shape, output.shape + output.ndim), ElementsAre(1, 2));
  EXPECT_THAT(std::vector(output.rows, output.rows + output.members), ElementsAre(1));
  EXPECT_EQ(output.dtype, HORA_FLOAT32);
  const auto* const data = static_cast<const float*>(output.data);
  EXPECT_THAT(std::vector(data, data + 2), ElementsAre(1, 2));
  for (const std::int64_t missing : {-1, 1})
    EXPECT_EQ(hora_get_output(handle, missing, &output), HORA_INVALID_ARGUMENT);
  wait_and_release();
}

TEST_F(CApi, an_operation_in_place_has_no_output) {
  ASSERT_EQ(allreduce(tensor()), HORA_OK);
  hora_output output;
  EXPECT_EQ(hora_wait(handle, kLongWait), HORA_OK);
  EXPECT_EQ(hora_get_output(handle, 0, &output), HORA_INVALID_ARGUMENT);
  wait_and_release();
}

TEST_F(CApi, join_and_process_sets_have_values) {
  std::int64_t value = -1;
  ASSERT_EQ(hora_join_async(&handle), HORA_OK) << hora_last_error();
  ASSERT_EQ(hora_wait(handle, kLongWait), HORA_OK);
  EXPECT_EQ(hora_get_value(handle, &value), HORA_OK);
  EXPECT_EQ(value, 0);
  wait_and_release();
  const std::int32_t self = 0;
  ASSERT_EQ(hora_add_process_set_async(&self, 1, &handle), HORA_OK) << hora_last_error();
  ASSERT_EQ(hora_wait(handle, kLongWait), HORA_OK);
  EXPECT_EQ(hora_get_value(handle, &value), HORA_OK);
  EXPECT_GT(value, 0);
  wait_and_release();
  ASSERT_EQ(hora_remove_process_set_async(static_cast<std::int32_t>(value), &handle), HORA_OK);
  wait_and_release();
}

TEST_F(CApi, handles_must_not_be_null) {
  int complete = 0;
  std::int64_t value = 0;
  hora_output output;
  EXPECT_EQ(hora_poll(nullptr, &complete), HORA_INVALID_ARGUMENT);
  EXPECT_EQ(hora_wait(nullptr, 0), HORA_INVALID_ARGUMENT);
  EXPECT_EQ(hora_get_output(nullptr, 0, &output), HORA_INVALID_ARGUMENT);
  EXPECT_EQ(hora_get_value(nullptr, &value), HORA_INVALID_ARGUMENT);
}

TEST_F(CApi, texts_of_any_length_end) {
  const std::string name(100'000, 'n');
  expect_refused(allreduce(tensor(), name.c_str(), 6), "allreduce 'nnn");
  EXPECT_EQ(std::string(hora_last_error()).size(), 4095u);
  EXPECT_THAT(hora_last_error(), StartsWith("allreduce"));
}

}  // namespace
}  // namespace hora::testing
