#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <ostream>
#include <vector>

#include "stand_ins/cuda/symbols.h"
#include "stand_ins/fake_cuda.h"

namespace hora::cuda {

/// For the messages of failed expectations.
inline void PrintTo(Result result, std::ostream* out) {
  const char* name = nullptr;
  fake_cuda::cuGetErrorName(result, &name);
  *out << static_cast<int>(result) << " (" << (name ? name : "?") << ")";
}

}  // namespace hora::cuda

namespace hora::fake_cuda {

using cuda::Result;

/// Longer than anything here takes.
inline constexpr int kLongMs = 20'000;

/// Work that is not complete before the gate has been opened.
class Gate {
 public:
  void open() { open_ = true; }
  void close_behind(cuda::Stream stream) {
    ASSERT_EQ(fake_cuda_enqueue(stream, is_open, this), Result::kSuccess);
  }

 private:
  static bool is_open(void* gate) { return static_cast<Gate*>(gate)->open_; }

  std::atomic<bool> open_{false};
};

/// The context of one device, current on the thread that makes this.
class Current {
 public:
  explicit Current(int device) : device_(device) {
    EXPECT_EQ(kSymbols.primary_context_retain(&context_, device), Result::kSuccess);
    EXPECT_EQ(kSymbols.context_push(context_), Result::kSuccess);
  }
  ~Current() {
    cuda::Context popped = nullptr;
    EXPECT_EQ(kSymbols.context_pop(&popped), Result::kSuccess);
    EXPECT_EQ(popped, context_);
    EXPECT_EQ(kSymbols.primary_context_release(device_), Result::kSuccess);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  [[nodiscard]] cuda::Context context() const { return context_; }

 private:
  int device_;
  cuda::Context context_ = nullptr;
};

/// Streams have threads of their own, unless the test sets a seed.
class FakeCuda : public testing::Test {
 protected:
  static constexpr const cuda::Driver& driver = kSymbols;

  FakeCuda() {
    EXPECT_EQ(driver.init(0), Result::kSuccess);
    set_seed(0);
  }
  ~FakeCuda() override {
    EXPECT_TRUE(fake_cuda_drain(kLongMs));
    set_seed(0);
  }

  static void set_seed(std::uint64_t seed) {
    const Options options{.seed = seed};
    fake_cuda_set_options(&options);
  }

  static cuda::Stream make_stream(unsigned flags = cuda::kStreamNonBlocking) {
    cuda::Stream stream = nullptr;
    EXPECT_EQ(driver.stream_create(&stream, flags, 0), Result::kSuccess);
    return stream;
  }

  static cuda::Event make_event() {
    cuda::Event event = nullptr;
    EXPECT_EQ(driver.event_create(&event, cuda::kEventDisableTiming), Result::kSuccess);
    return event;
  }

  /// An event recorded behind all work of the stream.
  static cuda::Event record(cuda::Stream stream) {
    const cuda::Event event = make_event();
    EXPECT_EQ(driver.event_record(event, stream), Result::kSuccess);
    return event;
  }

  static cuda::DevicePointer allocate(std::size_t bytes) {
    cuda::DevicePointer pointer = 0;
    EXPECT_EQ(driver.memory_allocate(&pointer, bytes), Result::kSuccess);
    return pointer;
  }

  /// What the stream finds in device memory when it comes to it.
  static std::vector<unsigned char> read(cuda::DevicePointer pointer, std::size_t bytes,
                                         cuda::Stream stream) {
    std::vector<unsigned char> values(bytes);
    EXPECT_EQ(cuMemcpyDtoHAsync_v2(values.data(), pointer, bytes, stream), Result::kSuccess);
    EXPECT_EQ(cuEventSynchronize(record(stream)), Result::kSuccess);
    return values;
  }
};

/// What has run, in order.
class Journal {
 public:
  struct Line {
    Journal* journal;
    int number;
  };

  /// Work that writes the number.
  void add_behind(cuda::Stream stream, int number) {
    lines_.push_back(std::make_unique<Line>(Line{this, number}));
    ASSERT_EQ(fake_cuda_enqueue(stream, write, lines_.back().get()), Result::kSuccess);
  }

  [[nodiscard]] std::vector<int> written() const {
    const std::lock_guard lock(mutex_);
    return written_;
  }

 private:
  static bool write(void* data) {
    const auto* const line = static_cast<Line*>(data);
    const std::lock_guard lock(line->journal->mutex_);
    line->journal->written_.push_back(line->number);
    return true;
  }

  std::vector<std::unique_ptr<Line>> lines_;
  mutable std::mutex mutex_;
  std::vector<int> written_;
};

/// The parameter is the seed; 0: streams have threads.
class FakeCudaStreams : public FakeCuda, public testing::WithParamInterface<int> {
 protected:
  FakeCudaStreams() { set_seed(static_cast<std::uint64_t>(GetParam())); }

  Gate gate_;
  Journal journal_;
  const Current current_{0};  // ends first: waits for work that uses the others
};

}  // namespace hora::fake_cuda
