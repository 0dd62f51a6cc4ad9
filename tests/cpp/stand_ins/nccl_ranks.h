#pragma once

// Ranks of tests of the fake NCCL: threads, each with a device of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "stand_ins/cuda/symbols.h"
#include "stand_ins/fake_cuda.h"
#include "stand_ins/fake_nccl.h"
#include "stand_ins/nccl/symbols.h"

namespace hora::fake_nccl::testing {

using nccl::DataType;
using nccl::RedOp;
using nccl::Result;

inline void require(Result result) {
  if (result != Result::kSuccess) throw std::runtime_error(ncclGetLastError(nullptr));
}

inline void require(cuda::Result result) {
  if (result != cuda::Result::kSuccess) throw std::runtime_error("CUDA fails");
}

/// A device whose context is current, and a stream of it.
class Gpu {
 public:
  explicit Gpu(int device) : device_(device) {
    require(fake_cuda::cuInit(0));
    require(fake_cuda::cuDevicePrimaryCtxRetain(&context_, device));
    require(fake_cuda::cuCtxPushCurrent_v2(context_));
    require(fake_cuda::cuStreamCreateWithPriority(&stream_, cuda::kStreamNonBlocking, 0));
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu() {
    fake_cuda::cuStreamDestroy_v2(stream_);
    fake_cuda::cuCtxPopCurrent_v2(&context_);
    fake_cuda::cuDevicePrimaryCtxRelease_v2(device_);
  }

  cuda::Context context() const { return context_; }
  cuda::Stream stream() const { return stream_; }
  bool is_idle() const { return fake_cuda::cuStreamQuery(stream_) == cuda::Result::kSuccess; }

  /// Waits for all work on the stream.
  void finish() const {
    cuda::Event event = nullptr;
    require(fake_cuda::cuEventCreate(&event, cuda::kEventDisableTiming));
    require(fake_cuda::cuEventRecord(event, stream_));
    require(fake_cuda::cuEventSynchronize(event));
    require(fake_cuda::cuEventDestroy_v2(event));
  }

 private:
  int device_;
  cuda::Context context_ = nullptr;
  cuda::Stream stream_ = nullptr;
};

/// Elements in the memory of the current context's device.
template <typename T>
class DeviceVector {
 public:
  explicit DeviceVector(const std::vector<T>& values) : count_(values.size()) {
    require(fake_cuda::cuMemAlloc_v2(&pointer_, std::max<std::size_t>(1, bytes())));
    if (count_ != 0) std::memcpy(fake_cuda::fake_cuda_memory(data(), bytes()), values.data(), bytes());
  }
  explicit DeviceVector(std::size_t count) : DeviceVector(std::vector<T>(count)) {}
  DeviceVector(const DeviceVector&) = delete;
  DeviceVector& operator=(const DeviceVector&) = delete;
  ~DeviceVector() { fake_cuda::cuMemFree_v2(pointer_); }

  T* data() const { return reinterpret_cast<T*>(pointer_); }
  std::size_t count() const { return count_; }

  /// The work that writes it must be complete.
  std::vector<T> values() const {
    std::vector<T> values(count_);
    if (count_ != 0) std::memcpy(values.data(), fake_cuda::fake_cuda_memory(data(), bytes()), bytes());
    return values;
  }

 private:
  std::size_t bytes() const { return count_ * sizeof(T); }

  std::size_t count_;
  cuda::DevicePointer pointer_ = 0;
};

/// What ncclCommGetAsyncError says as soon as it is not kInProgress, or after `timeout` if it still is.
inline Result settled(nccl::Comm comm, std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  Result result = Result::kInProgress;
  while (result == Result::kInProgress && std::chrono::steady_clock::now() < deadline) {
    require(ncclCommGetAsyncError(comm, &result));
    std::this_thread::yield();
  }
  return result;
}

struct Rank {
  int rank;
  int size;
  const Gpu& gpu;
  nccl::Comm comm;  ///< null once the test has ended it

  cuda::Stream stream() const { return gpu.stream(); }
  /// After a call or a group: until the work is launched, then until it is complete.
  void finish() const {
    require(settled(comm));
    gpu.finish();
  }
};

inline nccl::UniqueId new_id() {
  nccl::UniqueId id;
  require(ncclGetUniqueId(&id));
  return id;
}

inline nccl::Config config_of(bool blocking) {
  nccl::Config config;
  config.blocking = blocking ? 1 : 0;
  return config;
}

inline nccl::Comm joined(const nccl::UniqueId& id, int size, int rank, bool blocking) {
  nccl::Config config = config_of(blocking);
  nccl::Comm comm = nullptr;
  const Result result = ncclCommInitRankConfig(&comm, size, id, rank, &config);
  require(result == Result::kInProgress ? settled(comm) : result);
  return comm;
}

/// Runs the ranks of one communicator and destroys it where the test has not ended it. Options and faults are
/// as at the beginning afterwards.
inline void run_ranks(int size, bool blocking, const std::function<void(Rank&)>& body) {
  const nccl::UniqueId id = new_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const Gpu gpu(rank);
        Rank self{rank, size, gpu, joined(id, size, rank, blocking)};
        body(self);
        require(ncclCommDestroy(self.comm));
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Options, faults, counts and the log are as at the beginning before each test.
class FakeNccl : public ::testing::Test {
 protected:
  FakeNccl() { fake_nccl_reset(); }
};

}  // namespace hora::fake_nccl::testing
