#include "base/thread.h"

#include <gtest/gtest.h>

#include <cfenv>

namespace hora {
namespace {

TEST(Thread, at_least_one_core_is_usable) {
  EXPECT_GE(usable_cores(), 1);
}

TEST(Thread, the_standard_float_mode_rounds_to_nearest_and_keeps_denormals_while_it_lives) {
  std::fesetround(FE_DOWNWARD);
  {
    const StandardFloatMode mode;
    EXPECT_EQ(std::fegetround(), FE_TONEAREST);
    volatile float smallest = 0x1p-126f;
    EXPECT_GT(smallest / 2, 0.0f);
  }
  EXPECT_EQ(std::fegetround(), FE_DOWNWARD);
  std::fesetround(FE_TONEAREST);
}

}  // namespace
}  // namespace hora
