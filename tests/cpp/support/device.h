#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "api/session.h"
#include "backends/cuda/cuda_library.h"

namespace hora::testing {

/// The device of a rank, current on this thread while it lives, and the stream on which its program works.
/// Ranks that are threads have one each.
class TestDevice {
 public:
  explicit TestDevice(int number);
  ~TestDevice();
  TestDevice(const TestDevice&) = delete;
  TestDevice& operator=(const TestDevice&) = delete;

  [[nodiscard]] const cuda::Driver& driver() const { return *driver_; }
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] cuda::Stream stream() const { return stream_; }
  [[nodiscard]] DevicePlace place() const { return {number_, reinterpret_cast<std::uintptr_t>(stream_)}; }
  /// Waits until its stream is through.
  void synchronize() const;

 private:
  std::shared_ptr<const cuda::Driver> driver_;
  int number_;
  cuda::Context context_ = nullptr;
  cuda::Stream stream_ = nullptr;
};

/// A call whose tensors were in host memory and now are on a device: their values go there and come back on
/// the program's stream, as results of its kernels would.
class CallOnDevice {
 public:
  /// `call`, whose tensors have to live as long as this, of the `rank`th of `size` ranks.
  CallOnDevice(const TestDevice& device, Call call, int rank, int size);
  ~CallOnDevice();
  CallOnDevice(const CallOnDevice&) = delete;
  CallOnDevice& operator=(const CallOnDevice&) = delete;

  /// To submit.
  [[nodiscard]] const Call& call() const { return call_; }

  /// After the wait: brings results to where the call in host memory would have written them. What the core
  /// has allocated is returned, in host memory.
  std::vector<Output> bring_back(const Session& session, const Handle& handle);

 private:
  struct Copy {
    std::byte* host;
    cuda::DevicePointer device;
    std::size_t bytes;
  };

  [[nodiscard]] cuda::DevicePointer allocate(std::size_t bytes);

  const TestDevice& device_;
  Call call_;
  std::vector<cuda::DevicePointer> allocated_;
  std::vector<Copy> results_;
};

/// Whether tests run with tensors on devices, as HORA_TEST_DEVICE says, so that the same tests run with and
/// without.
[[nodiscard]] bool tests_use_devices();

}  // namespace hora::testing
