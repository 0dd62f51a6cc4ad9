#include "transport/memory.h"

#include <gtest/gtest.h>

#include "support/run_ranks.h"
#include "support/transport_conformance.h"

namespace hora::testing {
namespace {

TransportCase threads(const std::string& name, int size, const RunOptions& options) {
  return {name, [=](const auto& body) { run_transports(size, body, options); }};
}

/// Each rank expects messages from all others, and is woken by them.
TransportCase linked(const std::string& name, int size, RunOptions options) {
  options.links.emplace();
  return {name, [=](const auto& body) {
            const auto connected = [&](Transport& transport) {
              transport.expect_from(peers_of(transport));
              EXPECT_TRUE(transport.notices_arrivals());
              body(transport);
            };
            run_transports(size, connected, options);
          }};
}

std::vector<TransportCase> all_cases() {
  const RunOptions memory{.shared_memory = false};
  const RunOptions shared{.shared_memory = true};
  const RunOptions hosts{.host_split = {2, 3}, .shared_memory = true};
  return {threads("memory_2", 2, memory),
          threads("memory_3", 3, memory),
          threads("memory_7", 7, memory),
          threads("shared_2", 2, shared),
          threads("shared_3", 3, shared),
          threads("shared_7", 7, shared),
          threads("shared_on_two_hosts", 5, hosts),
          linked("linked_2", 2, memory),
          linked("linked_3", 3, memory),
          linked("linked_7", 7, memory),
          linked("linked_and_shared", 5, hosts)};
}

INSTANTIATE_TEST_SUITE_P(Threads, TransportConformance, ::testing::ValuesIn(all_cases()), name_of);

TEST(LocalTransport, is_a_job_of_one_rank) {
  const auto transport = make_local_transport();
  EXPECT_EQ(transport->name(), "local");
  EXPECT_EQ(transport->topology().size(), 1);
  EXPECT_EQ(transport->topology().rank(), 0);
}

}  // namespace
}  // namespace hora::testing
