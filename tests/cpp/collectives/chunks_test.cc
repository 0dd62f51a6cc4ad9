#include "collectives/chunks.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(Chunks, cover_all_elements_once_in_order) {
  for (const int parts : {1, 2, 3, 7, 8}) {
    for (std::size_t count = 0; count <= 50; ++count) {
      const Chunks chunks(count, parts);
      EXPECT_EQ(chunks.first(0), 0u);
      EXPECT_EQ(chunks.first(parts), count);
      for (int part = 0; part < parts; ++part)
        EXPECT_EQ(chunks.first(part) + chunks.length(part), chunks.first(part + 1));
    }
  }
}

TEST(Chunks, lengths_differ_by_one_at_most_longer_ones_first) {
  for (const int parts : {1, 2, 3, 7, 8}) {
    for (std::size_t count = 0; count <= 50; ++count) {
      const Chunks chunks(count, parts);
      for (int part = 1; part < parts; ++part) EXPECT_LE(chunks.length(part), chunks.length(part - 1));
      EXPECT_LE(chunks.length(0), chunks.length(parts - 1) + 1);
    }
  }
}

TEST(Chunks, counts_beyond_32_bits_are_exact) {
  const Chunks chunks((std::size_t{1} << 40) + 1, 3);
  EXPECT_EQ(chunks.first(3), (std::size_t{1} << 40) + 1);
}

}  // namespace
}  // namespace hora
