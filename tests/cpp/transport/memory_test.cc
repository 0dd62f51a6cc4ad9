#include "transport/memory.h"

#include <gtest/gtest.h>

#include "support/run_ranks.h"
#include "support/transport_conformance.h"

namespace hora::testing {
namespace {

TransportCase memory_case(int size) {
  return {"memory_" + std::to_string(size), [size](const auto& body) { run_transports(size, body); }};
}

INSTANTIATE_TEST_SUITE_P(Memory, TransportConformance,
                         ::testing::Values(memory_case(2), memory_case(3), memory_case(7)), name_of);

TEST(LocalTransport, is_a_job_of_one_rank) {
  const auto transport = make_local_transport();
  EXPECT_EQ(transport->name(), "local");
  EXPECT_EQ(transport->topology().size(), 1);
  EXPECT_EQ(transport->topology().rank(), 0);
}

}  // namespace
}  // namespace hora::testing
