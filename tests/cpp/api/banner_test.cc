#include "api/banner.h"

#include <gtest/gtest.h>

#include "base/version.h"

namespace hora {
namespace {

TEST(Banner, says_in_one_line_what_has_been_started) {
  EXPECT_EQ(banner(Topology::split(0, 5, {3, 2}), "mpi", "PMI_SIZE"),
            "hora " + std::string(version()) +
                ": 5 ranks on 2 hosts over mpi; backends: host, nccl; launcher: PMI_SIZE");
  EXPECT_EQ(banner(Topology::split(0, 1, {1}), "local", ""),
            "hora " + std::string(version()) + ": 1 rank on 1 host over local; backends: host, nccl");
}

}  // namespace
}  // namespace hora
