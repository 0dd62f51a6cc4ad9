#include "base/text.h"

#include <gtest/gtest.h>

#include <array>
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

TEST(Text, in_a_field_ends_at_the_first_zero_byte_or_with_the_field) {
  EXPECT_EQ(text_in(std::array<char, 4>{'a', 'b', 0, 'c'}), "ab");
  EXPECT_EQ(text_in(std::array<char, 2>{'a', 'b'}), "ab");
}

}  // namespace
}  // namespace hora
