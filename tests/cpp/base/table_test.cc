#include "base/table.h"

#include <gmock/gmock.h>

namespace hora {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Table, columns_stand_below_each_other) {
  EXPECT_THAT(aligned({{"ranks", "shape", "op"}, {"0", "[2,3,4]", "Sum"}, {"1-1000", "", "Max"}}),
              ElementsAre("ranks   shape    op", "0       [2,3,4]  Sum", "1-1000           Max"));
}

TEST(Table, a_row_may_end_early) {
  EXPECT_THAT(aligned({{"a", "b"}, {"long"}}), ElementsAre("a     b", "long"));
}

TEST(Table, a_letter_of_several_bytes_takes_one_place) {
  EXPECT_THAT(aligned({{"\u00fc", "x"}, {"ab", "y"}}), ElementsAre("\u00fc   x", "ab  y"));
}

TEST(Table, of_nothing_is_nothing) {
  EXPECT_THAT(aligned({}), IsEmpty());
}

}  // namespace
}  // namespace hora
