#include <memory>
#include <thread>

#include "fake_cuda_fixture.h"

namespace hora::fake_cuda {
namespace {

/// The order in which one piece each of eight streams runs with this seed.
std::vector<int> order_with_seed(std::uint64_t seed) {
  const Options options{.seed = seed};
  fake_cuda_set_options(&options);
  Gate gate;
  Journal journal;
  const Current current(2);
  cuda::Stream first = nullptr;
  cuda::Event opened = nullptr;
  EXPECT_EQ(kSymbols.stream_create(&first, cuda::kStreamNonBlocking, 0), Result::kSuccess);
  EXPECT_EQ(kSymbols.event_create(&opened, 0), Result::kSuccess);
  gate.close_behind(first);
  EXPECT_EQ(kSymbols.event_record(opened, first), Result::kSuccess);
  for (int number = 0; number < 8; ++number) {
    cuda::Stream stream = nullptr;
    EXPECT_EQ(kSymbols.stream_create(&stream, cuda::kStreamNonBlocking, 0), Result::kSuccess);
    EXPECT_EQ(kSymbols.stream_wait_event(stream, opened, 0), Result::kSuccess);
    journal.add_behind(stream, number);
  }
  gate.open();
  EXPECT_TRUE(fake_cuda_drain(kLongMs));
  return journal.written();
}

class FakeCudaSchedule : public FakeCuda {};

TEST_F(FakeCudaSchedule, is_the_same_with_the_same_seed) {
  const auto first = order_with_seed(3);
  EXPECT_EQ(first.size(), 8U);
  for (int repeat = 0; repeat < 5; ++repeat) EXPECT_EQ(order_with_seed(3), first);
}

TEST_F(FakeCudaSchedule, differs_between_seeds) {
  const auto first = order_with_seed(1);
  bool differs = false;
  for (std::uint64_t seed = 2; seed < 6; ++seed) differs = differs || order_with_seed(seed) != first;
  EXPECT_TRUE(differs);
}

/// Several threads, each with a device, streams and memory, whose streams also wait for those of the next.
class FakeCudaTogether : public FakeCudaStreams {
 protected:
  static constexpr int kThreads = 4;
  static constexpr int kRounds = 50;

  void work_on(int device) {
    const Current current(device);
    const cuda::Stream packing = make_stream();
    const cuda::Stream users = make_stream(0);
    const auto index = static_cast<std::size_t>(device);
    const std::size_t neighbour = (index + 1) % kThreads;
    for (int round = 0; round < kRounds; ++round) {
      const auto value = static_cast<unsigned char>(round);
      const cuda::DevicePointer memory = allocate(64);
      EXPECT_EQ(cuMemsetD8Async(memory, value, 64, nullptr), Result::kSuccess);
      EXPECT_EQ(driver.event_record(events_[index], users), Result::kSuccess);
      EXPECT_EQ(driver.stream_wait_event(packing, events_[index], 0), Result::kSuccess);
      EXPECT_EQ(driver.stream_wait_event(users, events_[neighbour], 0), Result::kSuccess);
      EXPECT_EQ(read(memory, 64, packing), std::vector<unsigned char>(64, value));
      EXPECT_EQ(driver.memory_free(memory), Result::kSuccess);
    }
    EXPECT_EQ(driver.stream_destroy(packing), Result::kSuccess);
    EXPECT_EQ(driver.stream_destroy(users), Result::kSuccess);
  }

  std::vector<cuda::Event> events_;
};

INSTANTIATE_TEST_SUITE_P(Seeds, FakeCudaTogether, testing::Values(0, 1));

TEST_P(FakeCudaTogether, threads_and_devices_do_not_disturb_each_other) {
  std::vector<std::unique_ptr<Current>> contexts;
  for (int device = 0; device < kThreads; ++device) {
    contexts.push_back(std::make_unique<Current>(device));
    events_.push_back(make_event());
  }
  std::vector<std::thread> threads;
  for (int device = 0; device < kThreads; ++device) threads.emplace_back([=, this] { work_on(device); });
  for (std::thread& thread : threads) thread.join();
  while (!contexts.empty()) contexts.pop_back();
}

}  // namespace
}  // namespace hora::fake_cuda
