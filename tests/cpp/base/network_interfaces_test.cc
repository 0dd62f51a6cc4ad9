#include "base/network_interfaces.h"

#include <gmock/gmock.h>

namespace hora {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(NetworkInterfaces, one_of_a_list_is_enough) {
  EXPECT_EQ(missing_interfaces("lo"), "");
  EXPECT_EQ(missing_interfaces("nope0,lo"), "");
}

TEST(NetworkInterfaces, ranges_of_addresses_may_be_here) {
  EXPECT_EQ(missing_interfaces("192.168.0.0/16"), "");
}

TEST(NetworkInterfaces, no_list_misses_nothing) {
  EXPECT_EQ(missing_interfaces(""), "");
  EXPECT_EQ(missing_interfaces(","), "");
}

TEST(NetworkInterfaces, those_that_are_missing_are_named_beside_those_that_are_here) {
  const std::string missing = missing_interfaces("nope0,nope1");
  EXPECT_THAT(missing, StartsWith("this host has no network interface nope0, nope1; it has "));
  EXPECT_THAT(missing, HasSubstr("lo (127.0.0.1)"));
}

}  // namespace
}  // namespace hora
