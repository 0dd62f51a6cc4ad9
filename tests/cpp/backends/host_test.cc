#include "backends/host.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hora {
namespace {

Batch batch_on(DeviceKind device) {
  Batch batch;
  batch.entries.push_back({{"x", 0}, Signature{.device = device}, 1});
  return batch;
}

TEST(HostBackend, accepts_host_memory_only) {
  Faults faults;
  const HostBackend backend(faults);
  EXPECT_TRUE(backend.accepts(batch_on(DeviceKind::kHost)));
  EXPECT_FALSE(backend.accepts(batch_on(DeviceKind::kCuda)));
}

TEST(HostBackend, is_among_the_backends_of_this_build_as_is_one_for_gpus) {
  Faults faults;
  const auto backends = make_backends({}, faults);
  for (const DeviceKind device : {DeviceKind::kHost, DeviceKind::kCuda}) {
    EXPECT_EQ(
        std::ranges::count_if(backends, [&](const auto& each) { return each->accepts(batch_on(device)); }),
        1);
  }
}

}  // namespace
}  // namespace hora
