#include "engine/process_sets.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(ProcessSetsTable, begins_with_the_global_set) {
  const ProcessSets sets(3);
  ASSERT_NE(sets.find(kGlobalSet), nullptr);
  EXPECT_EQ(*sets.find(kGlobalSet), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(sets.find(1), nullptr);
}

TEST(ProcessSetsTable, finds_a_set_until_it_is_removed) {
  ProcessSets sets(3);
  sets.add(7, {0, 2});
  EXPECT_EQ(*sets.find(7), (std::vector<int>{0, 2}));
  sets.remove(7);
  EXPECT_EQ(sets.find(7), nullptr);
  EXPECT_NE(sets.find(kGlobalSet), nullptr);
}

TEST(ProcessSetsTable, a_list_that_was_found_outlives_its_set) {
  ProcessSets sets(3);
  sets.add(7, {0, 2});
  const RankList ranks = sets.find(7);
  sets.remove(7);
  EXPECT_EQ(*ranks, (std::vector<int>{0, 2}));
}

}  // namespace
}  // namespace hora
