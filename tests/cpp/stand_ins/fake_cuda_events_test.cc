#include <thread>

#include "fake_cuda_fixture.h"

namespace hora::fake_cuda {
namespace {

class FakeCudaEvents : public FakeCudaStreams {};

INSTANTIATE_TEST_SUITE_P(Seeds, FakeCudaEvents, testing::Values(0, 1));

TEST_P(FakeCudaEvents, are_complete_before_the_first_record) {
  const cuda::Event event = make_event();
  EXPECT_EQ(driver.event_query(event), Result::kSuccess);
  EXPECT_EQ(cuEventSynchronize(event), Result::kSuccess);
  const cuda::Stream stream = make_stream();
  EXPECT_EQ(driver.stream_wait_event(stream, event, 0), Result::kSuccess);
  EXPECT_EQ(cuStreamQuery(stream), Result::kSuccess);
}

TEST_P(FakeCudaEvents, are_not_ready_until_their_point_is_reached) {
  const cuda::Stream stream = make_stream();
  gate_.close_behind(stream);
  const cuda::Event event = record(stream);
  EXPECT_EQ(driver.event_query(event), Result::kNotReady);
  gate_.open();
  EXPECT_EQ(cuEventSynchronize(event), Result::kSuccess);
  EXPECT_EQ(driver.event_query(event), Result::kSuccess);
}

TEST_P(FakeCudaEvents, stand_for_the_record_at_the_time_of_the_wait) {
  const cuda::Stream quick = make_stream();
  const cuda::Stream slow = make_stream();
  const cuda::Stream waiting = make_stream();
  const cuda::Event event = record(quick);
  EXPECT_EQ(driver.stream_wait_event(waiting, event, 0), Result::kSuccess);
  const cuda::Event waited = record(waiting);
  gate_.close_behind(slow);
  EXPECT_EQ(driver.event_record(event, slow), Result::kSuccess);
  EXPECT_EQ(cuEventSynchronize(waited), Result::kSuccess);
  EXPECT_EQ(driver.event_query(event), Result::kNotReady);
  gate_.open();
}

TEST_P(FakeCudaEvents, may_be_destroyed_while_streams_wait_for_them) {
  const cuda::Stream stream = make_stream();
  const cuda::Stream waiting = make_stream();
  gate_.close_behind(stream);
  journal_.add_behind(stream, 1);
  const cuda::Event event = record(stream);
  EXPECT_EQ(driver.stream_wait_event(waiting, event, 0), Result::kSuccess);
  EXPECT_EQ(driver.event_destroy(event), Result::kSuccess);
  EXPECT_EQ(driver.event_query(event), Result::kInvalidHandle);
  EXPECT_EQ(driver.event_destroy(event), Result::kInvalidHandle);
  journal_.add_behind(waiting, 2);
  gate_.open();
  EXPECT_EQ(cuEventSynchronize(record(waiting)), Result::kSuccess);
  EXPECT_EQ(journal_.written(), (std::vector{1, 2}));
}

TEST_P(FakeCudaEvents, are_asked_from_threads_without_a_context) {
  const cuda::Event event = record(make_stream());
  std::thread([&] { EXPECT_EQ(cuEventSynchronize(event), Result::kSuccess); }).join();
}

}  // namespace
}  // namespace hora::fake_cuda
