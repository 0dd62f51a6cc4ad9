#include "base/buffer.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(Buffer, has_the_size_asked_for) {
  Buffer buffer;
  EXPECT_EQ(buffer.at_least(100).size(), 100u);
  EXPECT_EQ(buffer.at_least(10).size(), 10u);
  EXPECT_EQ(buffer.at_least(0).size(), 0u);
}

TEST(Buffer, keeps_its_memory_when_less_is_asked_for) {
  Buffer buffer;
  const std::byte* first = buffer.at_least(100).data();
  EXPECT_EQ(buffer.at_least(10).data(), first);
  EXPECT_EQ(buffer.at_least(100).data(), first);
}

}  // namespace
}  // namespace hora
