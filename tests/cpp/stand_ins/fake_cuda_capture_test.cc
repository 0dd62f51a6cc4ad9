#include <thread>

#include "fake_cuda_fixture.h"

namespace hora::fake_cuda {
namespace {

class FakeCudaCapture : public FakeCuda {
 protected:
  FakeCudaCapture() { EXPECT_EQ(fake_cuda_set_capturing(stream_, true), Result::kSuccess); }

  [[nodiscard]] cuda::CaptureStatus status() const {
    cuda::CaptureStatus found{};
    EXPECT_EQ(driver.stream_is_capturing(stream_, &found), Result::kSuccess);
    return found;
  }

  static cuda::CaptureMode exchange_mode(cuda::CaptureMode mode) {
    EXPECT_EQ(driver.exchange_capture_mode(&mode), Result::kSuccess);
    return mode;
  }

  [[nodiscard]] Result end() const { return fake_cuda_set_capturing(stream_, false); }

  const Current current_{0};
  const cuda::Event event_ = make_event();
  const cuda::Stream stream_ = make_stream();
};

TEST_F(FakeCudaCapture, shows_in_the_status_of_its_stream_only) {
  EXPECT_EQ(status(), cuda::CaptureStatus::kActive);
  cuda::CaptureStatus other{};
  EXPECT_EQ(driver.stream_is_capturing(make_stream(), &other), Result::kSuccess);
  EXPECT_EQ(other, cuda::CaptureStatus::kNone);
  EXPECT_EQ(end(), Result::kSuccess);
  EXPECT_EQ(status(), cuda::CaptureStatus::kNone);
}

TEST_F(FakeCudaCapture, is_invalidated_by_a_query_of_any_thread) {
  std::thread([&] { EXPECT_EQ(driver.event_query(event_), kStreamCaptureUnsupported); }).join();
  EXPECT_EQ(status(), cuda::CaptureStatus::kInvalidated);
  EXPECT_EQ(driver.event_record(event_, stream_), kStreamCaptureInvalidated);
  EXPECT_EQ(end(), kStreamCaptureInvalidated);
  EXPECT_EQ(driver.event_query(event_), Result::kSuccess);
}

TEST_F(FakeCudaCapture, is_invalidated_by_a_query_of_a_stream) {
  EXPECT_EQ(cuStreamQuery(make_stream()), kStreamCaptureUnsupported);
  EXPECT_EQ(end(), kStreamCaptureInvalidated);
}

TEST_F(FakeCudaCapture, is_invalidated_by_an_allocation) {
  cuda::DevicePointer memory = 0;
  EXPECT_EQ(driver.memory_allocate(&memory, 8), kStreamCaptureUnsupported);
  EXPECT_EQ(end(), kStreamCaptureInvalidated);
}

TEST_F(FakeCudaCapture, lets_relaxed_threads_do_all_that) {
  const cuda::Context context = current_.context();
  std::thread([&] {
    EXPECT_EQ(driver.context_push(context), Result::kSuccess);
    EXPECT_EQ(exchange_mode(cuda::CaptureMode::kRelaxed), cuda::CaptureMode::kGlobal);
    EXPECT_EQ(driver.event_query(event_), Result::kSuccess);
    EXPECT_EQ(driver.memory_free(allocate(8)), Result::kSuccess);
    EXPECT_EQ(exchange_mode(cuda::CaptureMode::kGlobal), cuda::CaptureMode::kRelaxed);
  }).join();
  EXPECT_EQ(end(), Result::kSuccess);
}

TEST_F(FakeCudaCapture, of_another_thread_does_not_concern_thread_local_mode) {
  std::thread([&] {
    exchange_mode(cuda::CaptureMode::kThreadLocal);
    EXPECT_EQ(driver.event_query(event_), Result::kSuccess);
  }).join();
  exchange_mode(cuda::CaptureMode::kThreadLocal);
  EXPECT_EQ(driver.event_query(event_), kStreamCaptureUnsupported);
  exchange_mode(cuda::CaptureMode::kGlobal);
  EXPECT_EQ(end(), kStreamCaptureInvalidated);
}

TEST_F(FakeCudaCapture, takes_work_that_never_runs) {
  const cuda::Stream other = make_stream();
  std::atomic<int> calls{0};
  EXPECT_EQ(driver.launch_host_function(
                stream_, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &calls),
            Result::kSuccess);
  EXPECT_EQ(driver.event_record(event_, stream_), Result::kSuccess);
  EXPECT_EQ(driver.stream_wait_event(other, event_, 0), kStreamCaptureIsolation);
  EXPECT_EQ(end(), Result::kSuccess);
  EXPECT_EQ(driver.event_query(event_), kCapturedEvent);
  EXPECT_TRUE(fake_cuda_drain(kLongMs));
  EXPECT_EQ(calls, 0);
}

TEST_F(FakeCudaCapture, cannot_wait_for_work_outside) {
  const cuda::Event outside = record(make_stream());
  EXPECT_EQ(driver.stream_wait_event(stream_, outside, 0), kStreamCaptureIsolation);
  EXPECT_EQ(end(), kStreamCaptureInvalidated);
}

TEST_F(FakeCudaCapture, of_a_blocking_stream_closes_the_default_stream) {
  EXPECT_EQ(end(), Result::kSuccess);
  const cuda::Stream blocking = make_stream(0);
  EXPECT_EQ(fake_cuda_set_capturing(blocking, true), Result::kSuccess);
  cuda::CaptureStatus found{};
  EXPECT_EQ(driver.stream_is_capturing(nullptr, &found), kStreamCaptureImplicit);
  EXPECT_EQ(driver.event_record(event_, nullptr), kStreamCaptureImplicit);
  EXPECT_EQ(fake_cuda_set_capturing(blocking, false), Result::kSuccess);
  EXPECT_EQ(driver.event_record(event_, nullptr), Result::kSuccess);
}

}  // namespace
}  // namespace hora::fake_cuda
