#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/device.h"
#include "support/run_ranks.h"

namespace hora::testing {

/// Longer than anything here takes.
inline constexpr std::chrono::seconds kSoon{20};

/// A rank with a device: tensors there, and calls on them.
class DeviceRank {
 public:
  explicit DeviceRank(Session& session)
      : session_(session), device_(session.topology().rank()), size_(session.topology().size()) {}

  [[nodiscard]] Session& session() { return session_; }
  [[nodiscard]] const TestDevice& device() const { return device_; }
  [[nodiscard]] int number() const { return session_.topology().rank(); }

  /// A call whose tensors are vectors of this rank, begun.
  struct Begun {
    std::unique_ptr<CallOnDevice> on_device;
    HandlePtr handle;
  };
  [[nodiscard]] Begun begin(Call call);
  std::vector<Output> finish(Begun& begun);
  std::vector<Output> run(Call call);
  /// What goes wrong, or "".
  std::string error(Call call);

 private:
  Session& session_;
  TestDevice device_;
  const int size_;
};

void run_devices(int size, const std::function<void(DeviceRank&)>& body, const RunOptions& options = {});

/// Keeps a stream from going on until it is opened.
class Gate {
 public:
  void close(const TestDevice& device);
  void open() { is_open_ = true; }

 private:
  static bool may_pass(void* self) { return static_cast<Gate*>(self)->is_open_; }

  std::atomic<bool> is_open_ = false;
};

/// The stand-ins are as they were at the beginning.
class OnDevices : public ::testing::Test {
 protected:
  void SetUp() override;
};

}  // namespace hora::testing
