#include "support/device_ranks.h"

#include <utility>

#include "stand_ins/fake_cuda.h"
#include "stand_ins/fake_nccl.h"
#include "support/calls.h"

namespace hora::testing {

DeviceRank::Begun DeviceRank::begin(Call call) {
  auto on_device =
      std::make_unique<CallOnDevice>(device_, std::move(call), session_.topology().rank(), size_);
  HandlePtr handle = session_.submit(on_device->call());
  return {std::move(on_device), std::move(handle)};
}

std::vector<Output> DeviceRank::finish(Begun& begun) {
  wait(session_, begun.handle);
  return begun.on_device->bring_back(session_, *begun.handle);
}

std::vector<Output> DeviceRank::run(Call call) {
  Begun begun = begin(std::move(call));
  return finish(begun);
}

std::string DeviceRank::error(Call call) {
  try {
    run(std::move(call));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void run_devices(int size, const std::function<void(DeviceRank&)>& body, const RunOptions& options) {
  run_ranks(
      size,
      [&](Session& session) {
        DeviceRank rank(session);
        body(rank);
      },
      options);
}

void Gate::close(const TestDevice& device) {
  ASSERT_EQ(fake_cuda::fake_cuda_enqueue(device.stream(), &Gate::may_pass, this), cuda::Result::kSuccess);
}

void OnDevices::SetUp() {
  fake_nccl::fake_nccl_reset();
  const fake_cuda::Options usual;
  fake_cuda::fake_cuda_set_options(&usual);
}

}  // namespace hora::testing
