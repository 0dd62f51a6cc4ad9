#include <chrono>
#include <numeric>

#include "fake_cuda_fixture.h"

namespace hora::fake_cuda {
namespace {

INSTANTIATE_TEST_SUITE_P(Seeds, FakeCudaStreams, testing::Values(0, 1, 2));

TEST_P(FakeCudaStreams, work_in_order) {
  const cuda::Stream stream = make_stream();
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  for (const int number : expected) journal_.add_behind(stream, number);
  EXPECT_EQ(cuEventSynchronize(record(stream)), Result::kSuccess);
  EXPECT_EQ(journal_.written(), expected);
}

TEST_P(FakeCudaStreams, do_not_wait_for_each_other) {
  const cuda::Stream blocked = make_stream();
  const cuda::Stream free = make_stream();
  gate_.close_behind(blocked);
  journal_.add_behind(blocked, 1);
  journal_.add_behind(free, 2);
  EXPECT_EQ(cuEventSynchronize(record(free)), Result::kSuccess);
  EXPECT_EQ(cuStreamQuery(free), Result::kSuccess);
  EXPECT_EQ(cuStreamQuery(blocked), Result::kNotReady);
  EXPECT_EQ(journal_.written(), std::vector{2});
  gate_.open();
  EXPECT_EQ(cuEventSynchronize(record(blocked)), Result::kSuccess);
  EXPECT_EQ(cuStreamQuery(blocked), Result::kSuccess);
}

TEST_P(FakeCudaStreams, wait_for_an_event_of_another_device) {
  const cuda::Stream first = make_stream();
  gate_.close_behind(first);
  journal_.add_behind(first, 1);
  const cuda::Event event = record(first);
  const Current other(1);
  const cuda::Stream second = make_stream();
  EXPECT_EQ(driver.stream_wait_event(second, event, 0), Result::kSuccess);
  journal_.add_behind(second, 2);
  EXPECT_EQ(cuStreamQuery(second), Result::kNotReady);
  gate_.open();
  EXPECT_EQ(cuEventSynchronize(record(second)), Result::kSuccess);
  EXPECT_EQ(journal_.written(), (std::vector{1, 2}));
}

TEST_P(FakeCudaStreams, end_their_work_after_their_destruction) {
  const cuda::Stream stream = make_stream();
  gate_.close_behind(stream);
  journal_.add_behind(stream, 1);
  const cuda::Event event = record(stream);
  EXPECT_EQ(driver.stream_destroy(stream), Result::kSuccess);
  EXPECT_EQ(cuStreamQuery(stream), Result::kInvalidHandle);
  EXPECT_EQ(driver.stream_destroy(stream), Result::kInvalidHandle);
  EXPECT_EQ(fake_cuda_enqueue(stream, [](void*) { return true; }, nullptr), Result::kInvalidHandle);
  EXPECT_FALSE(fake_cuda_drain(1));
  gate_.open();
  EXPECT_EQ(cuEventSynchronize(event), Result::kSuccess);
  EXPECT_EQ(journal_.written(), std::vector{1});
}

TEST_P(FakeCudaStreams, that_block_order_against_the_default_stream) {
  const cuda::Stream before = make_stream(0);
  const cuda::Stream after = make_stream(0);
  gate_.close_behind(before);
  journal_.add_behind(before, 1);
  journal_.add_behind(nullptr, 2);
  journal_.add_behind(after, 3);
  EXPECT_EQ(cuStreamQuery(after), Result::kNotReady);
  gate_.open();
  EXPECT_EQ(cuEventSynchronize(record(after)), Result::kSuccess);
  EXPECT_EQ(journal_.written(), (std::vector{1, 2, 3}));
}

TEST_P(FakeCudaStreams, that_do_not_block_ignore_the_default_stream) {
  const cuda::Stream stream = make_stream();
  gate_.close_behind(nullptr);
  journal_.add_behind(stream, 1);
  EXPECT_EQ(cuEventSynchronize(record(stream)), Result::kSuccess);
  EXPECT_EQ(cuStreamQuery(nullptr), Result::kNotReady);
  gate_.open();
}

TEST_P(FakeCudaStreams, belong_to_their_device) {
  const cuda::Stream stream = make_stream();
  EXPECT_TRUE(fake_cuda_is_stream_of(stream, 0));
  EXPECT_TRUE(fake_cuda_is_stream_of(nullptr, 0));
  const Current other(1);
  EXPECT_FALSE(fake_cuda_is_stream_of(stream, 1));
  EXPECT_TRUE(fake_cuda_is_stream_of(nullptr, 1));
  EXPECT_EQ(fake_cuda_enqueue(stream, [](void*) { return true; }, nullptr), Result::kInvalidHandle);
  EXPECT_EQ(driver.event_record(make_event(), stream), Result::kInvalidHandle);
}

TEST_P(FakeCudaStreams, call_host_functions_in_order) {
  const cuda::Stream stream = make_stream();
  gate_.close_behind(stream);
  std::atomic<int> calls{0};
  EXPECT_EQ(driver.launch_host_function(
                stream, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &calls),
            Result::kSuccess);
  const cuda::Event event = record(stream);
  EXPECT_EQ(calls, 0);
  gate_.open();
  EXPECT_EQ(cuEventSynchronize(event), Result::kSuccess);
  EXPECT_EQ(calls, 1);
}

TEST_P(FakeCudaStreams, refuse_calls_from_host_functions) {
  const auto before = fake_cuda_counts().calls_from_host_functions;
  const cuda::Stream stream = make_stream();
  std::atomic<Result> result{Result::kSuccess};
  EXPECT_EQ(
      driver.launch_host_function(
          stream,
          [](void* data) { static_cast<std::atomic<Result>*>(data)->store(kSymbols.event_query(nullptr)); },
          &result),
      Result::kSuccess);
  EXPECT_EQ(cuEventSynchronize(record(stream)), Result::kSuccess);
  EXPECT_EQ(result, Result::kUnknown);
  EXPECT_EQ(fake_cuda_counts().calls_from_host_functions, before + 1);
}

TEST_P(FakeCudaStreams, may_begin_late) {
  const Options options{.seed = static_cast<std::uint64_t>(GetParam()), .delay_us = 2000};
  fake_cuda_set_options(&options);
  const cuda::Stream stream = make_stream();
  const auto begin = std::chrono::steady_clock::now();
  journal_.add_behind(stream, 1);
  EXPECT_EQ(cuEventSynchronize(record(stream)), Result::kSuccess);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::microseconds(4000));
}

}  // namespace
}  // namespace hora::fake_cuda
