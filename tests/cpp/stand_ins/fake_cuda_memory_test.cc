#include <cstring>
#include <thread>

#include "fake_cuda_fixture.h"

namespace hora::fake_cuda {
namespace {

class FakeCudaMemory : public FakeCuda {
 protected:
  FakeCudaMemory() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  const Current current_{0};
};

using FakeCudaMemoryDeathTest = FakeCudaMemory;

TEST_F(FakeCudaMemory, is_copied_in_stream_order) {
  const cuda::Stream stream = make_stream();
  const cuda::DevicePointer first = allocate(100);
  const cuda::DevicePointer second = allocate(100);
  const std::vector<unsigned char> sent(100, 7);
  const auto before = fake_cuda_counts();
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(first, sent.data(), 100, stream), Result::kSuccess);
  EXPECT_EQ(cuMemsetD8Async(first + 50, 9, 50, stream), Result::kSuccess);
  EXPECT_EQ(cuMemcpyDtoDAsync_v2(second, first, 100, stream), Result::kSuccess);
  const auto received = read(second, 100, stream);
  EXPECT_EQ(received[49], 7);
  EXPECT_EQ(received[50], 9);
  EXPECT_EQ(fake_cuda_counts().copies, before.copies + 3);
  EXPECT_EQ(fake_cuda_counts().fills, before.fills + 1);
}

TEST_F(FakeCudaMemory, host_memory_is_read_when_the_copy_runs) {
  const cuda::Stream stream = make_stream();
  const cuda::DevicePointer memory = allocate(1);
  Gate gate;
  gate.close_behind(stream);
  unsigned char value = 1;
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(memory, &value, 1, stream), Result::kSuccess);
  value = 2;
  gate.open();
  EXPECT_EQ(read(memory, 1, stream)[0], 2);
}

TEST_F(FakeCudaMemory, is_poisoned_and_rests_when_freed) {
  const cuda::DevicePointer memory = allocate(64);
  auto* const seen = static_cast<unsigned char*>(fake_cuda_memory(reinterpret_cast<void*>(memory), 64));
  EXPECT_EQ(driver.memory_free(memory), Result::kSuccess);
  EXPECT_EQ(seen[0], 0xdf);
  EXPECT_EQ(seen[63], 0xdf);
  EXPECT_NE(allocate(64), memory);
  EXPECT_EQ(driver.memory_free(memory), Result::kInvalidValue);
}

TEST_F(FakeCudaMemory, addresses_do_not_run_out) {
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  const Options options{.memory_bytes = kBytes};
  fake_cuda_set_options(&options);
  const Current small(4);  // used by no other test, hence made with this size
  for (int round = 0; round < 300; ++round) {
    EXPECT_EQ(driver.memory_free(allocate(kBytes)), Result::kSuccess);
  }
}

TEST_F(FakeCudaMemory, freeing_waits_for_the_device) {
  const cuda::Stream stream = make_stream();
  const cuda::DevicePointer memory = allocate(64);
  Gate gate;
  gate.close_behind(stream);
  EXPECT_EQ(cuMemsetD8Async(memory, 1, 64, stream), Result::kSuccess);
  const cuda::Event filled = record(stream);
  const auto waits_before = fake_cuda_counts().synchronizations;
  const cuda::Context context = current_.context();
  std::atomic<bool> freed{false};
  std::thread other([&] {
    EXPECT_EQ(driver.context_push(context), Result::kSuccess);
    EXPECT_EQ(driver.memory_free(memory), Result::kSuccess);
    freed = true;
    EXPECT_EQ(driver.event_query(filled), Result::kSuccess);
  });
  while (fake_cuda_counts().synchronizations == waits_before) std::this_thread::yield();
  EXPECT_FALSE(freed);
  gate.open();
  other.join();
}

TEST_F(FakeCudaMemory, ends_at_its_limit) {
  const Options options{.memory_bytes = 1000 + fake_cuda_counts().live_bytes};
  fake_cuda_set_options(&options);
  const cuda::DevicePointer memory = allocate(600);
  cuda::DevicePointer other = 0;
  EXPECT_EQ(driver.memory_allocate(&other, 600), Result::kOutOfMemory);
  EXPECT_EQ(driver.memory_free(memory), Result::kSuccess);
  EXPECT_EQ(driver.memory_allocate(&other, 600), Result::kSuccess);
}

TEST_F(FakeCudaMemory, fails_when_told_to) {
  fake_cuda_fail_allocations(1);
  cuda::DevicePointer memory = 0;
  EXPECT_EQ(driver.memory_allocate(&memory, 8), Result::kOutOfMemory);
  EXPECT_EQ(driver.memory_allocate(&memory, 8), Result::kSuccess);
}

TEST_F(FakeCudaMemoryDeathTest, a_host_access_faults) {
  const cuda::DevicePointer memory = allocate(8);
  EXPECT_DEATH(*reinterpret_cast<volatile int*>(memory) = 1, "");
  EXPECT_DEATH(static_cast<void>(*reinterpret_cast<volatile int*>(memory)), "");
}

TEST_F(FakeCudaMemoryDeathTest, an_access_behind_the_end_is_found) {
  const cuda::DevicePointer memory = allocate(100);
  EXPECT_DEATH(
      {
        cuMemsetD8Async(memory, 1, 101, nullptr);
        fake_cuda_drain(kLongMs);
      },
      "101 bytes at 0x[0-9a-f]+ are not within one living allocation.* below is 100 bytes at 0x");
}

TEST_F(FakeCudaMemoryDeathTest, an_access_before_the_beginning_is_found) {
  const cuda::DevicePointer memory = allocate(100);
  EXPECT_DEATH(fake_cuda_memory(reinterpret_cast<void*>(memory - 1), 4), "not within one living allocation");
}

TEST_F(FakeCudaMemoryDeathTest, an_access_after_the_free_is_found) {
  const cuda::DevicePointer memory = allocate(100);
  EXPECT_EQ(driver.memory_free(memory), Result::kSuccess);
  EXPECT_DEATH(fake_cuda_memory(reinterpret_cast<void*>(memory), 4), "is 100 bytes at 0x.*freed");
}

TEST_F(FakeCudaMemoryDeathTest, an_access_to_host_memory_is_found) {
  int value = 0;
  EXPECT_DEATH(fake_cuda_memory(&value, sizeof value), "no device has this address");
}

TEST_F(FakeCudaMemoryDeathTest, what_a_kernel_wrote_behind_the_end_is_found_by_the_free) {
  const cuda::DevicePointer memory = allocate(100);
  auto* const seen = static_cast<unsigned char*>(fake_cuda_memory(reinterpret_cast<void*>(memory), 100));
  EXPECT_DEATH(
      {
        seen[102] = 0;
        driver.memory_free(memory);
      },
      "wrote 2 bytes behind the end of 100 bytes");
}

}  // namespace
}  // namespace hora::fake_cuda
