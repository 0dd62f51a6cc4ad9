#include "base/text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace hora {
namespace {

TEST(Text, parts_are_joined_by_the_separator) {
  EXPECT_EQ(join(std::vector<std::string>{"a", "b", "c"}, ", "), "a, b, c");
}

TEST(Text, numbers_are_joined_as_decimals) {
  EXPECT_EQ(join(std::vector<std::int64_t>{2, -3}, ","), "2,-3");
}

TEST(Text, nothing_joins_to_nothing) {
  EXPECT_EQ(join(std::vector<int>{}, ","), "");
}

TEST(Text, an_empty_part_keeps_its_place) {
  EXPECT_EQ(join(std::vector<std::string>{"", "b", ""}, ","), ",b,");
}

}  // namespace
}  // namespace hora
