#include "fake_cuda_fixture.h"

namespace hora::fake_cuda {
namespace {

class FakeCudaKernels : public FakeCudaStreams {
 protected:
  struct Add {
    std::uintptr_t to;
    std::size_t count;
    float value;
  };

  static void add(unsigned grid, unsigned block, void* const* parameters) {
    const auto& parameter = *static_cast<const Add*>(parameters[0]);
    EXPECT_EQ(grid * block, 64U);
    auto* const values = static_cast<float*>(
        fake_cuda_memory(reinterpret_cast<void*>(parameter.to), parameter.count * sizeof(float)));
    for (std::size_t index = 0; index < parameter.count; ++index) values[index] += parameter.value;
  }

  cuda::Function find(const char* name, Result expected = Result::kSuccess) {
    cuda::Function function = nullptr;
    EXPECT_EQ(driver.module_function(&function, module_, name), expected);
    return function;
  }

  static Result launch(cuda::Function function, cuda::Stream stream, Add& parameter) {
    void* parameters[] = {&parameter};
    return driver.launch_kernel(function, 2, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr);
  }

  FakeCudaKernels() {
    fake_cuda_register_kernel("add", sizeof(Add), add);
    EXPECT_EQ(driver.module_load(&module_, "any image"), Result::kSuccess);
  }

  cuda::Module module_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Seeds, FakeCudaKernels, testing::Values(0, 1));

TEST_P(FakeCudaKernels, run_in_stream_order_with_the_parameter_of_the_launch) {
  const cuda::Stream stream = make_stream();
  const cuda::DevicePointer memory = allocate(10 * sizeof(float));
  const auto before = fake_cuda_counts().kernels;
  gate_.close_behind(stream);
  EXPECT_EQ(cuMemsetD8Async(memory, 0, 10 * sizeof(float), stream), Result::kSuccess);
  Add parameter{.to = memory, .count = 10, .value = 1.5F};
  EXPECT_EQ(launch(find("add"), stream, parameter), Result::kSuccess);
  parameter.value = 100;
  gate_.open();
  float last = 0;
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(&last, memory + 9 * sizeof(float), sizeof last, stream), Result::kSuccess);
  EXPECT_EQ(cuEventSynchronize(record(stream)), Result::kSuccess);
  EXPECT_EQ(last, 1.5F);
  EXPECT_EQ(fake_cuda_counts().kernels, before + 1);
}

TEST_P(FakeCudaKernels, are_unknown_by_other_names) {
  find("subtract", Result::kNotFound);
}

TEST_P(FakeCudaKernels, go_with_their_module) {
  const cuda::Function function = find("add");
  EXPECT_EQ(driver.module_unload(module_), Result::kSuccess);
  EXPECT_EQ(driver.module_unload(module_), Result::kInvalidHandle);
  Add parameter{};
  EXPECT_EQ(launch(function, nullptr, parameter), Result::kInvalidHandle);
}

TEST_P(FakeCudaKernels, need_a_stream_of_the_current_context) {
  const cuda::Function function = find("add");
  const cuda::Stream stream = make_stream();
  const Current other(1);
  Add parameter{};
  EXPECT_EQ(launch(function, stream, parameter), Result::kInvalidHandle);
  EXPECT_EQ(launch(function, nullptr, parameter), Result::kInvalidHandle);
}

TEST_P(FakeCudaKernels, are_not_larger_than_a_device_allows) {
  const cuda::Function function = find("add");
  Add parameter{};
  void* parameters[] = {&parameter};
  EXPECT_EQ(driver.launch_kernel(function, 1, 1, 1, 1025, 1, 1, 0, nullptr, parameters, nullptr),
            Result::kInvalidValue);
  EXPECT_EQ(driver.launch_kernel(function, 0, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr),
            Result::kInvalidValue);
}

}  // namespace
}  // namespace hora::fake_cuda
