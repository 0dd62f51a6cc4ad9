#include "transport/registry.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

std::optional<std::string> empty_environment(std::string_view) {
  return std::nullopt;
}

TEST(Registry, without_a_launcher_the_job_has_one_rank) {
  const auto transport = open_transport(Settings{}, empty_environment, [] {});
  EXPECT_EQ(transport->name(), "local");
  EXPECT_EQ(transport->topology().size(), 1);
}

TEST(Registry, says_why_mpi_cannot_be_used_or_which_it_is) {
  EXPECT_FALSE(probe_mpi().text.empty());
}

TEST(Registry, nothing_of_mpi_happens_where_none_is_loaded) {
  abandon_mpi();
}

}  // namespace
}  // namespace hora
