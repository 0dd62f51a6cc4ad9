#include "transport/registry.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

std::optional<std::string> empty_environment(std::string_view) {
  return std::nullopt;
}

TEST(Registry, without_a_launcher_the_job_has_one_rank) {
  const auto transport = open_transport(Settings{}, empty_environment, {}, [] {});
  EXPECT_EQ(transport->name(), "local");
  EXPECT_EQ(transport->topology().size(), 1);
}

TEST(Registry, says_why_mpi_cannot_be_used_or_which_it_is) {
  EXPECT_FALSE(probe_mpi().text.empty());
}

TEST(Registry, nothing_of_mpi_happens_where_none_is_loaded) {
  abandon_mpi();
}

TEST(OpenTransport, without_mpi_there_is_nothing_to_choose_from) {
  EXPECT_EQ(open_transport(Settings{}, empty_environment, {.ranks = {0}, .communicator = {}}, [] {})
                ->topology()
                .size(),
            1);
  for (const JobScope& scope : {JobScope{{1}, {}}, JobScope{{0, 1}, {}}, JobScope{{}, 7}})
    EXPECT_THROW(static_cast<void>(open_transport(Settings{}, empty_environment, scope, [] {})), Error);
}

}  // namespace
}  // namespace hora
