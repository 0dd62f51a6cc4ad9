#include "backends/nccl/card.h"

#include <gmock/gmock.h>

#include <vector>

#include "base/error.h"

namespace hora::nccl {
namespace {

std::vector<Card> two_cards() {
  std::vector<Card> cards(2);
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    cards[rank] = {};
    cards[rank].job_rank = static_cast<int>(rank);
    copy_text(cards[rank].host, "node boot");
    copy_text(cards[rank].bus_id, std::to_string(rank));
  }
  return cards;
}

std::string error_of(const std::vector<Card>& cards) {
  try {
    static_cast<void>(agree(cards));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Cards, agree_on_the_least_that_all_have) {
  std::vector<Card> cards = two_cards();
  cards[0].staging_bytes = 300;
  cards[1].staging_bytes = 200;
  cards[1].has_kernels = 1;
  EXPECT_EQ(agree(cards).staging_bytes, 200u);
  EXPECT_FALSE(agree(cards).have_kernels);
  cards[0].has_kernels = 2;
  EXPECT_TRUE(agree(cards).have_kernels);
}

TEST(Cards, with_texts_that_do_not_end_are_read_no_further_than_they_reach) {
  std::vector<Card> cards = two_cards();
  cards[0].problem.fill('x');
  EXPECT_THAT(error_of(cards), testing::EndsWith(": " + std::string(cards[0].problem.size(), 'x')));
  cards = two_cards();
  for (Card& card : cards) {
    card.host.fill('h');
    card.bus_id.fill('b');
  }
  EXPECT_THAT(error_of(cards),
              testing::HasSubstr("both use GPU " + std::string(cards[0].bus_id.size(), 'b')));
}

}  // namespace
}  // namespace hora::nccl
