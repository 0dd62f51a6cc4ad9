#include "negotiation/message.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

namespace hora {
namespace {

Signature shaped(Shape shape) {
  Signature signature;
  signature.shape = std::move(shape);
  return signature;
}

Cache cache_with(int ids) {
  Cache cache(1000);
  for (int id = 1; id <= ids; ++id)
    cache.learn(static_cast<std::uint32_t>(id), "t" + std::to_string(id), shaped({id}));
  return cache;
}

std::vector<Announcement> sample_announcements() {
  return {{{"t2", 0}, 2, {}},
          {{"new", 0}, 0, {{shaped({2, 3}), {}}}},
          {{"", 7}, 0, {{shaped({2}), RankSet({0, 1, 2})}, {shaped({3}), RankSet({3})}}},
          {{"t1", 0}, 1, {}},
          {{"t3", 0}, 3, {}}};
}

/// One batch of known tensors, one with two new ones, one error.
Plan sample_plan() {
  Plan plan;
  plan.batches.push_back({{{{"t1", 0}, shaped({1}), 1}, {{"t2", 0}, shaped({2}), 2}}, 1024, ""});
  plan.batches.push_back(
      {{{{"new", 0}, shaped({2, 3}), 3}, {{"", 5}, shaped({9}), 4}, {{"", 6}, shaped({9}), 4}}, 1, ""});
  plan.batches.push_back({{{{"bad", 0}, shaped({4}), 0}}, 0, "allreduce 'bad': ranks differ"});
  plan.departure = Departure{3, "it was shut down"};
  return plan;
}

void expect_equal(const Plan& left, const Plan& right) {
  ASSERT_EQ(left.batches.size(), right.batches.size());
  for (std::size_t batch = 0; batch < left.batches.size(); ++batch) {
    EXPECT_EQ(left.batches[batch].piece_bytes, right.batches[batch].piece_bytes);
    EXPECT_EQ(left.batches[batch].error, right.batches[batch].error);
    ASSERT_EQ(left.batches[batch].entries.size(), right.batches[batch].entries.size());
    for (std::size_t at = 0; at < left.batches[batch].entries.size(); ++at) {
      const BatchEntry& a = left.batches[batch].entries[at];
      const BatchEntry& b = right.batches[batch].entries[at];
      EXPECT_EQ(a.key, b.key);
      EXPECT_EQ(a.signature, b.signature);
      EXPECT_EQ(a.id, b.id);
    }
  }
  ASSERT_EQ(left.departure.has_value(), right.departure.has_value());
  if (!left.departure) return;
  EXPECT_EQ(left.departure->rank, right.departure->rank);
  EXPECT_EQ(left.departure->reason, right.departure->reason);
}

TEST(Message, announcements_survive_the_wire) {
  const std::vector<Announcement> sent = sample_announcements();
  const std::vector<Announcement> got = decode_announcements(encode(sent), cache_with(3));
  ASSERT_EQ(got.size(), sent.size());
  for (std::size_t at = 0; at < sent.size(); ++at) {
    EXPECT_EQ(got[at].key, sent[at].key);
    EXPECT_EQ(got[at].id, sent[at].id);
    ASSERT_EQ(got[at].variants.size(), sent[at].variants.size());
    for (std::size_t variant = 0; variant < sent[at].variants.size(); ++variant) {
      EXPECT_EQ(got[at].variants[variant].signature, sent[at].variants[variant].signature);
      EXPECT_EQ(got[at].variants[variant].ranks, sent[at].variants[variant].ranks);
    }
  }
}

TEST(Message, a_plan_survives_the_wire_and_teaches_its_new_ids) {
  Cache cache = cache_with(2);
  expect_equal(decode_plan(encode(sample_plan(), 3), cache), sample_plan());
  EXPECT_EQ(cache.size(), 4u);
  EXPECT_EQ(cache.get(3).name, "new");
  EXPECT_EQ(cache.get(4).signature, shaped({9}));
}

TEST(Message, an_empty_plan_survives_the_wire) {
  Cache cache(1);
  expect_equal(decode_plan(encode(Plan{}, 1), cache), Plan{});
}

TEST(Message, a_known_id_costs_two_bytes_whatever_its_description) {
  std::vector<Announcement> announcements;
  for (std::uint32_t id = 1; id <= 100; ++id) announcements.push_back({{"a name that is long", 0}, id, {}});
  EXPECT_LE(encode(announcements).size(), 2u * 100 + 4);
}

TEST(Message, a_departure_survives_the_wire) {
  const Departure got = decode_departure(encode(Departure{31, "it was shut down"}));
  EXPECT_EQ(got.rank, 31);
  EXPECT_EQ(got.reason, "it was shut down");
}

TEST(Message, a_failure_survives_the_wire) {
  const Failure got = decode_failure(encode(Failure{7, "out of memory"}));
  EXPECT_EQ(got.rank, 7);
  EXPECT_EQ(got.reason, "out of memory");
}

TEST(Message, the_first_byte_tells_the_kind) {
  EXPECT_EQ(kind_of(encode(std::vector<Announcement>{})), MessageKind::kAnnounce);
  EXPECT_EQ(kind_of(encode(Plan{}, 1)), MessageKind::kPlan);
  EXPECT_EQ(kind_of(encode(Departure{})), MessageKind::kDepart);
  EXPECT_EQ(kind_of(encode(Failure{})), MessageKind::kFailure);
  EXPECT_EQ(kind_of(encode_goodbye()), MessageKind::kGoodbye);
}

TEST(Message, one_of_another_kind_is_an_error) {
  Cache cache(1);
  EXPECT_THROW(static_cast<void>(decode_plan(encode(Departure{}), cache)), Error);
  EXPECT_THROW(static_cast<void>(decode_departure(encode(Failure{}))), Error);
}

TEST(Message, an_unknown_id_is_an_error) {
  EXPECT_THROW(static_cast<void>(decode_announcements(encode(sample_announcements()), cache_with(2))), Error);
}

TEST(Message, one_cut_short_anywhere_is_an_error) {
  const Bytes announcements = encode(sample_announcements());
  for (std::size_t length = 0; length < announcements.size(); ++length) {
    EXPECT_THROW(
        static_cast<void>(decode_announcements(std::span(announcements).first(length), cache_with(3))), Error)
        << length;
  }
  const Bytes plan = encode(sample_plan(), 3);
  for (std::size_t length = 0; length < plan.size(); ++length) {
    Cache cache = cache_with(2);
    EXPECT_THROW(static_cast<void>(decode_plan(std::span(plan).first(length), cache)), Error) << length;
  }
}

TEST(Message, a_damaged_one_never_crashes_its_reader) {
  std::mt19937 random(11);
  const std::vector<Bytes> intact{encode(sample_announcements()), encode(sample_plan(), 3),
                                  encode(Departure{1, "x"})};
  for (int round = 0; round < 10000; ++round) {
    Bytes message = intact[random() % intact.size()];
    for (unsigned change = 1 + random() % 3; change > 0; --change)
      message[random() % message.size()] = static_cast<std::byte>(random());
    Cache cache = cache_with(2);
    try {
      switch (kind_of(message)) {
        case MessageKind::kAnnounce:
          static_cast<void>(decode_announcements(message, cache));
          break;
        case MessageKind::kPlan:
          static_cast<void>(decode_plan(message, cache));
          break;
        default:
          static_cast<void>(decode_departure(message));
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kSessionFailed);
    }
  }
}

}  // namespace
}  // namespace hora
