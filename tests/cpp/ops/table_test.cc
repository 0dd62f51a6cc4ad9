#include "ops/table.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(OpTable, every_row_stands_at_its_own_number) {
  for (std::size_t number = 0; number < kOpCount; ++number)
    EXPECT_EQ(static_cast<std::size_t>(op_spec(static_cast<OpKind>(number)).kind), number);
}

TEST(OpTable, only_a_ragged_first_dimension_is_not_agreed) {
  EXPECT_EQ(agreed_shape(op_spec(OpKind::kAllgather), {3, 4}), (Shape{Signature::kRagged, 4}));
  EXPECT_EQ(agreed_shape(op_spec(OpKind::kAllgather), {}), Shape{});
  EXPECT_EQ(agreed_shape(op_spec(OpKind::kAllreduce), {3, 4}), (Shape{3, 4}));
}

}  // namespace
}  // namespace hora
