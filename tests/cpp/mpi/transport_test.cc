#include <gmock/gmock.h>

#include "base/error.h"
#include "mpi/open_job.h"
#include "support/transport_conformance.h"

namespace hora::testing {
namespace {

void run_process(const std::function<void(Transport&)>& body) {
  const auto transport = open_job();
  body(*transport);
}

INSTANTIATE_TEST_SUITE_P(Mpi, TransportConformance,
                         ::testing::Values(TransportCase{"processes", run_process}), name_of);

TEST(MpiTransport, ranks_of_one_machine_are_on_one_host) {
  const auto transport = open_job();
  EXPECT_EQ(transport->name(), "shared memory");
  EXPECT_EQ(transport->topology().host_count(), 1);
  EXPECT_EQ(transport->topology().local_size(), transport->topology().size());
}

TEST(MpiTransport, a_host_split_makes_hosts_up) {
  const int size = open_job()->topology().size();
  const auto transport = open_job({.host_split = {1, size - 1}});
  EXPECT_EQ(transport->topology().host_count(), 2);
  EXPECT_EQ(transport->topology().local_size(), transport->topology().rank() == 0 ? 1 : size - 1);
}

TEST(MpiTransport, a_host_split_that_does_not_fit_is_refused_and_the_next_job_opens) {
  try {
    static_cast<void>(open_job({.host_split = {100}}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("HORA_HOST_SPLIT=100"));
  }
  EXPECT_GE(open_job()->topology().size(), 2);
}

TEST(MpiTransport, may_be_opened_and_closed_many_times) {
  for (int round = 0; round < 20; ++round) {
    const auto transport = open_job();
    Inbox(*transport).meet();
  }
}

}  // namespace
}  // namespace hora::testing
