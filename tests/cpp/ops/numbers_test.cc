#include "ops/numbers.h"

#include <gmock/gmock.h>

#include <array>
#include <cstring>
#include <limits>
#include <memory>

#include "base/error.h"
#include "support/calls.h"
#include "support/forwarding_transport.h"
#include "support/run_ranks.h"

namespace hora::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::string error_of_rows(const Group& group, const std::vector<std::int64_t>& rows, std::size_t row_bytes) {
  try {
    static_cast<void>(row_bounds(group, rows, row_bytes));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kSessionFailed);
    return error.what();
  }
  return {};
}

TEST(Numbers, rows_follow_each_other) {
  run_groups(3, [](const Group& group) {
    EXPECT_THAT(row_bounds(group, std::vector<std::int64_t>{2, 0, 5}, 4), ElementsAre(0, 8, 8, 28));
    EXPECT_THAT(row_bounds(group, std::vector<std::int64_t>{2, 1, 5}, 0), ElementsAre(0, 0, 0, 0));
  });
}

TEST(Numbers, rows_that_cannot_be_name_the_rank_that_told_them) {
  run_groups(3, [](const Group& group) {
    EXPECT_EQ(error_of_rows(group, {2, -1, 5}, 4), "rank 1 sent what cannot be: -1 rows of 4 bytes");
    EXPECT_EQ(error_of_rows(group, {2, 1, -7}, 0), "rank 2 sent what cannot be: -7 rows of 0 bytes");
    EXPECT_THAT(error_of_rows(group, {kMost, 1, 1}, 8), HasSubstr("rank 0 sent what cannot be"));
    EXPECT_THAT(error_of_rows(group, {1, kMost, kMost}, 0), HasSubstr("rank 1 sent what cannot be"));
  });
}

TEST(Numbers, of_rows_whose_sum_is_no_number_are_refused) {
  run_groups(2, [](const Group& group) {
    const std::int64_t half = std::int64_t{1} << 62;
    EXPECT_THAT(error_of_rows(group, {half, half}, 0), HasSubstr("rank 0 sent what cannot be"));
    EXPECT_THAT(error_of_rows(group, {half / 2, half / 2}, 1), IsEmpty());
  });
}

/// Tells others a number of its own instead of every number of rows, or of every pair of them.
class LyingTransport final : public ForwardingTransport {
 public:
  LyingTransport(std::unique_ptr<Transport> inner, std::int64_t lie)
      : ForwardingTransport(std::move(inner)), lie_{lie, lie} {}

  [[nodiscard]] Ticket send(int peer, int tag, std::span<const std::byte> data) override {
    const std::size_t bytes = data.size();
    const bool is_told = tag != kStartTag && (bytes == sizeof(lie_[0]) || bytes == sizeof lie_);
    return ForwardingTransport::send(peer, tag, is_told ? std::as_bytes(std::span(lie_)).first(bytes) : data);
  }

 private:
  const std::array<std::int64_t, 2> lie_;
};

class LyingRank : public ::testing::TestWithParam<OpKind> {};

INSTANTIATE_TEST_SUITE_P(In, LyingRank, ::testing::Values(OpKind::kAllgather, OpKind::kAlltoall),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(LyingRank, fails_the_session_on_all_ranks_and_is_named) {
  const WrapTransport wrap = [](std::unique_ptr<Transport> inner) -> std::unique_ptr<Transport> {
    if (inner->topology().rank() != 1) return inner;
    return std::make_unique<LyingTransport>(std::move(inner), -5);
  };
  run_ranks(2,
            [](Session& session) {
              std::vector<float> values(8, 1.0f);
              Call call = GetParam() == OpKind::kAllgather ? allgather("x", ref(values))
                                                           : alltoall("x", ref(values), {4, 4});
              const std::string error = error_of(session, std::move(call));
              EXPECT_THAT(error, HasSubstr("rank 1 sent what cannot be: -5 rows of 4 bytes"));
            },
            {.shared_memory = false, .wrap = wrap});
}

}  // namespace
}  // namespace hora::testing
