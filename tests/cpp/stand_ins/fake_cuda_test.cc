#include <string>
#include <thread>

#include "fake_cuda_fixture.h"

namespace hora::fake_cuda {
namespace {

class FakeCudaDevices : public FakeCuda {};

TEST_F(FakeCudaDevices, are_eight_with_distinct_bus_ids) {
  int count = 0;
  EXPECT_EQ(cuDeviceGetCount(&count), Result::kSuccess);
  EXPECT_EQ(count, 8);
  char first[16] = "";
  char second[16] = "";
  EXPECT_EQ(driver.device_pci_bus_id(first, sizeof first, 0), Result::kSuccess);
  EXPECT_EQ(driver.device_pci_bus_id(second, sizeof second, 1), Result::kSuccess);
  EXPECT_STREQ(first, "0000:1b:00.0");
  EXPECT_STREQ(second, "0000:23:00.0");
}

TEST_F(FakeCudaDevices, have_the_properties_of_a_large_gpu) {
  int value = 0;
  EXPECT_EQ(driver.device_attribute(&value, cuda::DeviceAttribute::kComputeCapabilityMajor, 3),
            Result::kSuccess);
  EXPECT_EQ(value, 9);
  EXPECT_EQ(driver.driver_version(&value), Result::kSuccess);
  EXPECT_EQ(value, 13000);
}

TEST_F(FakeCudaDevices, beyond_the_last_do_not_exist) {
  cuda::DeviceNumber device = 0;
  EXPECT_EQ(driver.device(&device, 8), Result::kInvalidDevice);
  cuda::Context context = nullptr;
  EXPECT_EQ(driver.primary_context_retain(&context, -1), Result::kInvalidDevice);
}

TEST_F(FakeCudaDevices, results_have_names) {
  const char* text = nullptr;
  EXPECT_EQ(driver.error_name(Result::kIllegalAddress, &text), Result::kSuccess);
  EXPECT_STREQ(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_EQ(driver.error_string(Result::kOutOfMemory, &text), Result::kSuccess);
  EXPECT_STREQ(text, "out of memory");
  EXPECT_EQ(driver.error_name(static_cast<Result>(12345), &text), Result::kInvalidValue);
}

class FakeCudaContexts : public FakeCuda {};

TEST_F(FakeCudaContexts, none_is_current_at_first) {
  EXPECT_EQ(fake_cuda_current_device(), -1);
  cuda::DevicePointer pointer = 0;
  EXPECT_EQ(driver.memory_allocate(&pointer, 8), Result::kInvalidContext);
  EXPECT_EQ(cuStreamQuery(nullptr), Result::kInvalidContext);
  EXPECT_EQ(driver.context_pop(nullptr), Result::kInvalidContext);
}

TEST_F(FakeCudaContexts, are_a_stack_of_each_thread) {
  const Current outer(1);
  {
    const Current inner(2);
    EXPECT_EQ(fake_cuda_current_device(), 2);
    std::thread([] { EXPECT_EQ(fake_cuda_current_device(), -1); }).join();
  }
  EXPECT_EQ(fake_cuda_current_device(), 1);
}

TEST_F(FakeCudaContexts, of_one_device_are_one_while_somebody_retains_it) {
  const Current first(1);
  cuda::Context second = nullptr;
  EXPECT_EQ(driver.primary_context_retain(&second, 1), Result::kSuccess);
  EXPECT_EQ(second, first.context());
  EXPECT_EQ(driver.primary_context_release(1), Result::kSuccess);
  EXPECT_EQ(cuStreamQuery(nullptr), Result::kSuccess);
}

TEST_F(FakeCudaContexts, take_everything_with_them) {
  cuda::Context context = nullptr;
  EXPECT_EQ(driver.primary_context_retain(&context, 1), Result::kSuccess);
  EXPECT_EQ(driver.context_push(context), Result::kSuccess);
  const cuda::Stream stream = make_stream();
  const cuda::Event event = make_event();
  const auto before = fake_cuda_counts().live_bytes;
  allocate(1000);
  EXPECT_EQ(driver.context_pop(nullptr), Result::kSuccess);
  EXPECT_EQ(driver.primary_context_release(1), Result::kSuccess);

  EXPECT_EQ(driver.context_push(context), Result::kInvalidContext);
  EXPECT_EQ(cuStreamQuery(stream), Result::kInvalidHandle);
  EXPECT_EQ(driver.event_query(event), Result::kInvalidHandle);
  EXPECT_EQ(fake_cuda_counts().live_bytes, before);
  EXPECT_EQ(driver.primary_context_release(1), Result::kInvalidContext);
}

class FakeCudaFailure : public FakeCuda {
 protected:
  ~FakeCudaFailure() override { fake_cuda_break_device(kDevice, Result::kSuccess); }

  static constexpr int kDevice = 6;
};

TEST_F(FakeCudaFailure, is_sticky_and_drops_the_work) {
  cuda::Context context = nullptr;
  EXPECT_EQ(driver.primary_context_retain(&context, kDevice), Result::kSuccess);
  EXPECT_EQ(driver.context_push(context), Result::kSuccess);
  const cuda::Stream stream = make_stream();
  const cuda::DevicePointer memory = allocate(64);
  Gate gate;
  gate.close_behind(stream);
  const cuda::Event event = record(stream);
  std::atomic<int> calls{0};
  const auto count = [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); };
  EXPECT_EQ(driver.launch_host_function(stream, count, &calls), Result::kSuccess);
  const auto before = fake_cuda_counts();

  fake_cuda_break_device(kDevice, Result::kIllegalAddress);
  EXPECT_EQ(driver.event_query(event), Result::kIllegalAddress);
  EXPECT_EQ(cuEventSynchronize(event), Result::kIllegalAddress);
  EXPECT_EQ(cuStreamQuery(stream), Result::kIllegalAddress);
  EXPECT_EQ(cuMemsetD8Async(memory, 0, 64, stream), Result::kIllegalAddress);
  EXPECT_EQ(driver.launch_host_function(stream, count, &calls), Result::kIllegalAddress);
  EXPECT_TRUE(fake_cuda_drain(kLongMs));
  EXPECT_EQ(calls, 0);

  EXPECT_EQ(driver.memory_free(memory), Result::kIllegalAddress);
  EXPECT_EQ(driver.event_destroy(event), Result::kSuccess);
  EXPECT_EQ(driver.stream_destroy(stream), Result::kSuccess);
  EXPECT_EQ(driver.context_pop(nullptr), Result::kSuccess);
  EXPECT_EQ(driver.primary_context_release(kDevice), Result::kSuccess);
  const auto after = fake_cuda_counts();
  EXPECT_EQ(after.frees, before.frees + 1);
  EXPECT_EQ(after.streams_destroyed, before.streams_destroyed + 1);
  EXPECT_EQ(after.events_destroyed, before.events_destroyed + 1);
}

TEST_F(FakeCudaFailure, can_be_repaired) {
  fake_cuda_break_device(kDevice, Result::kLaunchFailed);
  cuda::Context context = nullptr;
  EXPECT_EQ(driver.primary_context_retain(&context, kDevice), Result::kLaunchFailed);
  fake_cuda_break_device(kDevice, Result::kSuccess);
  const Current current(kDevice);
  EXPECT_EQ(cuEventSynchronize(record(nullptr)), Result::kSuccess);
}

TEST_F(FakeCudaFailure, ends_a_wait_and_leaves_other_devices_alone) {
  cuda::Context context = nullptr;
  EXPECT_EQ(driver.primary_context_retain(&context, kDevice), Result::kSuccess);
  EXPECT_EQ(driver.context_push(context), Result::kSuccess);
  Gate gate;
  gate.close_behind(nullptr);
  const cuda::Event event = record(nullptr);
  const auto waits_before = fake_cuda_counts().synchronizations;
  std::thread waiter([&] { EXPECT_EQ(cuEventSynchronize(event), Result::kLaunchFailed); });
  while (fake_cuda_counts().synchronizations == waits_before) std::this_thread::yield();
  fake_cuda_break_device(kDevice, Result::kLaunchFailed);
  waiter.join();
  EXPECT_EQ(driver.context_pop(nullptr), Result::kSuccess);
  EXPECT_EQ(driver.primary_context_release(kDevice), Result::kSuccess);

  const Current other(5);
  EXPECT_EQ(cuEventSynchronize(record(nullptr)), Result::kSuccess);
}

class FakeCudaBeforeInit : public testing::Test {};

/// In a process of its own, where nobody has called cuInit.
TEST_F(FakeCudaBeforeInit, nothing_works) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        int count = 0;
        const bool refused = cuDeviceGetCount(&count) == Result::kNotInitialized &&
                             kSymbols.event_query(nullptr) == Result::kNotInitialized &&
                             kSymbols.driver_version(&count) == Result::kSuccess;
        std::_Exit(refused ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(FakeCudaBeforeInit, the_environment_says_how_many_devices_there_are) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("HORA_FAKE_CUDA_DEVICES", "0", 1);
        std::_Exit(kSymbols.init(0) == Result::kNoDevice ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(FakeCudaBeforeInit, the_environment_can_make_all_bus_ids_the_same) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("HORA_FAKE_CUDA_SAME_PCI", "1", 1);
        setenv("HORA_FAKE_CUDA_VERSION", "12020", 1);
        char first[16] = "";
        char second[16] = "";
        int version = 0;
        const bool done = kSymbols.init(0) == Result::kSuccess &&
                          kSymbols.device_pci_bus_id(first, sizeof first, 0) == Result::kSuccess &&
                          kSymbols.device_pci_bus_id(second, sizeof second, 5) == Result::kSuccess &&
                          kSymbols.driver_version(&version) == Result::kSuccess;
        std::_Exit(done && std::string(first) == second && version == 12020 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace hora::fake_cuda
