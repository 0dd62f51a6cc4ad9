#include "ops/table.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hora {
namespace {

TEST(OpTable, every_row_stands_at_its_own_number) {
  for (std::size_t number = 0; number < kOpCount; ++number)
    EXPECT_EQ(static_cast<std::size_t>(op_spec(static_cast<OpKind>(number)).kind), number);
}

TEST(OpTable, rows_may_differ_between_ranks_only_where_the_op_gathers_or_exchanges_them) {
  for (std::size_t number = 0; number < kOpCount; ++number) {
    const auto op = static_cast<OpKind>(number);
    EXPECT_EQ(op_spec(op).ragged_first, op == OpKind::kAllgather || op == OpKind::kAlltoall) << name(op);
  }
}

TEST(OpTable, nothing_runs_where_agreement_is_all) {
  const std::vector<OpKind> agreed_only{OpKind::kBarrier, OpKind::kJoin, OpKind::kAddProcessSet,
                                        OpKind::kRemoveProcessSet};
  for (std::size_t number = 0; number < kOpCount; ++number) {
    const auto op = static_cast<OpKind>(number);
    EXPECT_EQ(op_spec(op).run_on_host == nullptr, std::ranges::find(agreed_only, op) != agreed_only.end())
        << name(op);
  }
}

}  // namespace
}  // namespace hora
