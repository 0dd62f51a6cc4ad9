#include "base/thread.h"

#include <gtest/gtest.h>

#include <cfenv>

namespace hora {
namespace {

TEST(Thread, at_least_one_core_is_usable) {
  EXPECT_GE(usable_cores(), 1);
}

/// Whether arithmetic rounds down here.
bool rounds_down() {
  volatile float one = 1.0f;
  volatile float little = 0x1p-30f;
  return one - little < 1.0f;
}

TEST(Thread, the_standard_float_mode_rounds_to_nearest_and_keeps_denormals_while_it_lives) {
  std::fesetround(FE_DOWNWARD);
  EXPECT_TRUE(rounds_down());
  {
    const StandardFloatMode mode;
    EXPECT_FALSE(rounds_down());
    volatile float smallest = 0x1p-126f;
    EXPECT_GT(smallest / 2, 0.0f);
  }
  EXPECT_TRUE(rounds_down());
  std::fesetround(FE_TONEAREST);
}

}  // namespace
}  // namespace hora
