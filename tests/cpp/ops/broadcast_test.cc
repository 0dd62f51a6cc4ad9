#include <gmock/gmock.h>

#include "support/calls.h"
#include "support/grid.h"
#include "support/run_ranks.h"
#include "support/sentence.h"
#include "support/tensor.h"

namespace hora::testing {
namespace {

using ::testing::HasSubstr;

class Broadcast : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, Broadcast, ::testing::ValuesIn(kRankCounts),
                         ::testing::PrintToStringParamName());

TEST_P(Broadcast, carries_every_dtype_from_every_root) {
  // Each tensor alone, and as many together as there are of one root.
  for (const std::uint64_t threshold : {0, 1 << 20}) {
    run_ranks(GetParam(),
              [](Session& session) {
                Grid grid(session);
                for (int root = 0; root < session.topology().size(); ++root) {
                  for (const DType dtype : kAllDTypes) {
                    for (const bool in_place : {false, true}) grid.broadcast(dtype, 37, root, in_place);
                  }
                }
                grid.finish();
              },
              {.settings = {.fusion_threshold = threshold}});
  }
}

TEST_P(Broadcast, works_at_every_length) {
  run_ranks(GetParam(), [](Session& session) {
    Grid grid(session);
    for (const std::size_t length : critical_lengths(session.topology().size(), 20011)) {
      for (const bool in_place : {false, true})
        grid.broadcast(DType::kFloat32, length, session.topology().size() - 1, in_place);
    }
    grid.finish();
  });
}

TEST_P(Broadcast, in_tiny_pieces_is_right) {
  run_ranks(GetParam(), [](Session& session) { check_broadcast(session, DType::kFloat64, 101, 0, false); },
            {.settings = {.piece_bytes = 3}});
}

TEST_P(Broadcast, keeps_every_bit_of_a_nan) {
  run_ranks(GetParam(), [](Session& session) {
    const bool is_root = session.topology().rank() == 0;
    std::vector<Float16> values;
    for (std::uint32_t bits = 0; bits <= 0xffff; ++bits)
      values.push_back({is_root ? static_cast<std::uint16_t>(bits) : std::uint16_t{0}});
    run(session, broadcast("x", ref(values), 0));
    for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) ASSERT_EQ(values[bits].bits, bits);
  });
}

TEST_P(Broadcast, several_at_once_from_several_roots_are_right) {
  run_ranks(GetParam(), [](Session& session) {
    const int size = session.topology().size();
    std::vector<std::vector<std::int32_t>> inputs;
    std::vector<std::vector<std::int32_t>> outputs;
    for (int number = 0; number < 30; ++number) {
      inputs.emplace_back(static_cast<std::size_t>(number), session.topology().rank() * 100 + number);
      outputs.emplace_back(static_cast<std::size_t>(number), -1);
    }
    std::vector<HandlePtr> handles;
    for (int number = 0; number < 30; ++number) {
      const auto at = static_cast<std::size_t>(number);
      handles.push_back(session.submit(
          broadcast("t" + std::to_string(number), ref(inputs[at]), ref(outputs[at]), number % size)));
    }
    for (const HandlePtr& handle : handles) wait(session, handle);
    for (int number = 0; number < 30; ++number) {
      EXPECT_EQ(outputs[static_cast<std::size_t>(number)],
                std::vector<std::int32_t>(static_cast<std::size_t>(number), number % size * 100 + number));
    }
  });
}

TEST(BroadcastArguments, a_root_that_is_no_rank_is_refused) {
  run_ranks(3, [](Session& session) {
    std::vector<float> values(1);
    for (const int root : {-1, 3}) {
      const Refusal refusal = refusal_of(session, broadcast("x", ref(values), root));
      EXPECT_EQ(refusal.kind, ErrorKind::kInvalidArgument);
      EXPECT_EQ(refusal.text, fmt::format("broadcast 'x': root_rank {} is not one of the ranks 0-2", root));
    }
    EXPECT_EQ(error_of(session, broadcast("x", ref(values), 2)), "");
  });
}

TEST(BroadcastArguments, different_roots_are_an_error_on_all_ranks) {
  run_ranks(3, [](Session& session) {
    std::vector<float> values(1);
    EXPECT_EQ(error_of(session, broadcast("x", ref(values), session.topology().rank() == 1 ? 1 : 0)),
              with_table("broadcast 'x': ranks differ in root_rank",
                         {{"ranks", "root_rank"}, {"1", "1"}, {"0,2", "0"}}));
  });
}

}  // namespace
}  // namespace hora::testing
