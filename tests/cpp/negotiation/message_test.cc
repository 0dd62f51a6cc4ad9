#include "negotiation/message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"

namespace hora {
namespace {

Signature shaped(Shape shape) {
  Signature signature;
  signature.tensors = {{DType::kFloat32, std::move(shape)}};
  return signature;
}

/// Tensors of several dtypes, a scalar and an empty one among them.
Signature grouped() {
  return {.tensors = {{DType::kFloat32, {300, 2}},
                      {DType::kInt64, {}},
                      {DType::kFloat16, {Signature::kRagged, 7}},
                      {DType::kFloat32, {0}}}};
}

/// t1, t2, .. of the global set, of which every third belongs to process set 4.
Cache cache_with(int ids) {
  Cache cache(1000);
  for (int id = 1; id <= ids; ++id)
    cache.learn(static_cast<std::uint32_t>(id), {"t" + std::to_string(id), 0, id % 3 == 0 ? 4 : kGlobalSet},
                shaped({id}));
  return cache;
}

std::vector<Announcement> sample_announcements() {
  return {{{"t2", 0}, 2, {}},
          {{"new", 0}, 0, {{shaped({2, 3}), {}}}},
          {{"", 7}, 0, {{shaped({2}), RankSet({0, 1, 2})}, {shaped({3}), RankSet({3})}}},
          {{"t1", 0}, 1, {}, RankSet({0, 3, 5})},
          {{"elsewhere", 0, 300}, 0, {{shaped({2}), {}}}, RankSet({7})},
          {{"t3", 0, 4}, 3, {}}};
}

/// One batch of known tensors, one with two new ones, one error, one join.
Plan sample_plan() {
  Plan plan;
  plan.batches.push_back({.entries = {{{"t1", 0}, shaped({1}), 1}, {{"t2", 0}, shaped({2}), 2}},
                          .piece_bytes = 1024,
                          .contributors = 40'000});
  plan.batches.push_back(
      {.entries = {{{"new", 0}, shaped({2, 3}), 3}, {{"", 5}, shaped({9}), 4}, {{"", 6}, shaped({9}), 4}},
       .piece_bytes = 1,
       .contributors = 1});
  plan.batches.push_back(
      {.entries = {{{"bad", 0}, shaped({4}), 0}}, .error = "allreduce 'bad': ranks differ"});
  plan.batches.push_back({.entries = {{Key::join(), Signature{.op = OpKind::kJoin}, 0}}, .value = 31});
  plan.departure = Departure{3, "it was shut down"};
  return plan;
}

/// Of process set 4: a change of another set, and tensors known and new.
Plan sample_plan_of_a_set() {
  Plan plan;
  plan.process_set = 4;
  const Signature change{.op = OpKind::kAddProcessSet, .ranks = {0, 2, 4}};
  plan.batches.push_back({.entries = {{{"", 3, 4}, change, 9}}, .contributors = 3, .value = -70'000});
  plan.batches.push_back(
      {.entries = {{{"t3", 0, 4}, shaped({3}), 3}, {{"new", 0, 4}, shaped({1}), 12}}, .contributors = 3});
  return plan;
}

/// Groups alone, of which ranks sent different numbers of tensors, and without any tensor.
std::vector<Announcement> sample_groups() {
  Signature shorter = grouped();
  shorter.tensors.pop_back();
  return {{{"group", 0}, 0, {{grouped(), {}}}},
          {{"", 7}, 0, {{grouped(), RankSet({0, 2})}, {shorter, RankSet({1})}}},
          {{"nothing", 0}, 0, {{Signature{}, {}}}, RankSet({0, 3})}};
}

/// New groups, alone and beside a single tensor, and a known tensor.
Plan sample_plan_of_groups() {
  Plan plan;
  plan.batches.push_back({.entries = {{{"group", 0}, grouped(), 4}}, .contributors = 3});
  plan.batches.push_back(
      {.entries = {{{"t2", 0}, shaped({2}), 2},
                   {{"", 8}, Signature{.tensors = {{DType::kFloat32, {1}}, {DType::kFloat32, {}}}}, 5}},
       .contributors = 3});
  plan.batches.push_back({.entries = {{{"nothing", 0}, Signature{}, 6}}, .contributors = 3});
  plan.batches.push_back({.entries = {{{"bad", 0}, grouped(), 0}}, .error = "allreduce 'bad': ranks differ"});
  return plan;
}

void expect_equal(const Plan& left, const Plan& right) {
  EXPECT_EQ(left.process_set, right.process_set);
  ASSERT_EQ(left.batches.size(), right.batches.size());
  for (std::size_t batch = 0; batch < left.batches.size(); ++batch) {
    EXPECT_EQ(left.batches[batch].piece_bytes, right.batches[batch].piece_bytes);
    EXPECT_EQ(left.batches[batch].contributors, right.batches[batch].contributors);
    EXPECT_EQ(left.batches[batch].value, right.batches[batch].value);
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

void expect_survives(const std::vector<Announcement>& sent) {
  const std::vector<Announcement> got = decode_announcements(encode(sent), cache_with(3));
  ASSERT_EQ(got.size(), sent.size());
  for (std::size_t at = 0; at < sent.size(); ++at) {
    EXPECT_EQ(got[at].key, sent[at].key);
    EXPECT_EQ(got[at].id, sent[at].id);
    EXPECT_EQ(got[at].contributors, sent[at].contributors);
    ASSERT_EQ(got[at].variants.size(), sent[at].variants.size());
    for (std::size_t variant = 0; variant < sent[at].variants.size(); ++variant) {
      EXPECT_EQ(got[at].variants[variant].signature, sent[at].variants[variant].signature);
      EXPECT_EQ(got[at].variants[variant].ranks, sent[at].variants[variant].ranks);
    }
  }
}

TEST(Message, announcements_survive_the_wire) {
  expect_survives(sample_announcements());
}

TEST(Message, announcements_of_groups_survive_the_wire) {
  expect_survives(sample_groups());
}

TEST(Message, a_plan_of_groups_survives_the_wire_and_teaches_their_ids) {
  Cache cache = cache_with(3);
  const Bytes message = encode(sample_plan_of_groups(), 4);
  expect_equal(decode_plan(message, cache), sample_plan_of_groups());
  EXPECT_EQ(cache.get(4).signature, grouped());
  EXPECT_EQ(cache.find({{"group"}, grouped()}), 4u);
  EXPECT_EQ(cache.get(6).signature, Signature{});
  expect_equal(decode_plan(message, cache), sample_plan_of_groups());
}

TEST(Message, a_plan_survives_the_wire_and_teaches_its_new_ids) {
  Cache cache = cache_with(2);
  expect_equal(decode_plan(encode(sample_plan(), 3), cache), sample_plan());
  EXPECT_EQ(cache.last_id(), 4u);
  EXPECT_EQ(cache.get(3).name, "new");
  EXPECT_EQ(cache.get(4).signature, shaped({9}));
}

TEST(Message, a_plan_of_a_process_set_survives_the_wire_and_teaches_ids_with_gaps) {
  Cache cache = cache_with(3);
  expect_equal(decode_plan(encode(sample_plan_of_a_set(), 9), cache), sample_plan_of_a_set());
  EXPECT_EQ(cache.last_id(), 12u);
  EXPECT_EQ(cache.get(12).process_set, 4);
  EXPECT_EQ(cache.get(9).signature->ranks, (std::vector<int>{0, 2, 4}));
  EXPECT_THROW(static_cast<void>(cache.get(10)), Error);
}

TEST(Message, a_plan_that_comes_twice_teaches_nothing_new) {
  Cache cache = cache_with(3);
  const Bytes message = encode(sample_plan_of_a_set(), 9);
  static_cast<void>(decode_plan(message, cache));
  expect_equal(decode_plan(message, cache), sample_plan_of_a_set());
}

TEST(Message, a_join_survives_the_wire) {
  for (const int rank : {0, 1, 127, 128, 32'767}) EXPECT_EQ(decode_join(encode_join(rank)), rank);
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

TEST(Message, a_known_group_in_a_plan_costs_as_much_as_a_known_tensor) {
  const auto length = [](const Signature& signature) {
    Plan plan;
    plan.batches.push_back({.entries = {{{"a name", 0}, signature, 2}}});
    return encode(plan, 3).size();
  };
  EXPECT_EQ(length(grouped()), length(shaped({2})));
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

TEST(Message, what_is_waited_for_survives_the_wire) {
  const std::vector<Key> keys{{"x", 0, 3}, {"", 7, kGlobalSet}};
  EXPECT_EQ(decode_waits(encode_waits(keys)), keys);
  const Bytes whole = encode_waits(keys);
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_THROW(static_cast<void>(decode_waits(std::span(whole).first(length))), Error) << length;
}

TEST(Message, the_end_of_batches_survives_the_wire) {
  const Through got = decode_through(encode(Through{7, 300}));
  EXPECT_EQ(got.process_set, 7);
  EXPECT_EQ(got.batches, 300u);
}

TEST(Message, a_question_for_callers_and_its_answer_survive_the_wire) {
  const CallerQuestion question =
      decode_caller_question(encode(CallerQuestion{300, {"x", 0, 7}, RankSet({1, 5})}));
  EXPECT_EQ(question.number, 300u);
  EXPECT_EQ(question.key, (Key{"x", 0, 7}));
  EXPECT_EQ(question.ranks, RankSet({1, 5}));
  const CallerAnswer answer = decode_caller_answer(encode(CallerAnswer{300, 5, "train.py:41"}));
  EXPECT_EQ(answer.question, 300u);
  EXPECT_EQ(answer.rank, 5);
  EXPECT_EQ(answer.where, "train.py:41");
}

TEST(Message, the_first_byte_tells_the_kind) {
  EXPECT_EQ(kind_of(encode(std::vector<Announcement>{})), MessageKind::kAnnounce);
  EXPECT_EQ(kind_of(encode(Plan{}, 1)), MessageKind::kPlan);
  EXPECT_EQ(kind_of(encode_join(3)), MessageKind::kJoin);
  EXPECT_EQ(kind_of(encode_waits({})), MessageKind::kWait);
  EXPECT_EQ(kind_of(encode(Departure{})), MessageKind::kDepart);
  EXPECT_EQ(kind_of(encode(Failure{})), MessageKind::kFailure);
  EXPECT_EQ(kind_of(encode_goodbye()), MessageKind::kGoodbye);
  EXPECT_EQ(kind_of(encode(Through{})), MessageKind::kThrough);
  EXPECT_EQ(kind_of(encode(CallerQuestion{})), MessageKind::kCallerQuestion);
  EXPECT_EQ(kind_of(encode(CallerAnswer{})), MessageKind::kCallerAnswer);
}

TEST(Message, one_of_another_kind_is_an_error) {
  Cache cache(1);
  EXPECT_THROW(static_cast<void>(decode_plan(encode(Departure{}), cache)), Error);
  EXPECT_THROW(static_cast<void>(decode_departure(encode(Failure{}))), Error);
  EXPECT_THROW(static_cast<void>(decode_join(encode(Departure{}))), Error);
  EXPECT_THROW(static_cast<void>(decode_departure(encode_join(1))), Error);
}

TEST(Message, an_unknown_id_is_an_error) {
  EXPECT_THROW(static_cast<void>(decode_announcements(encode(sample_announcements()), cache_with(2))), Error);
}

TEST(Message, one_cut_short_anywhere_is_an_error) {
  for (const Bytes& announcements : {encode(sample_announcements()), encode(sample_groups())}) {
    for (std::size_t length = 0; length < announcements.size(); ++length) {
      EXPECT_THROW(
          static_cast<void>(decode_announcements(std::span(announcements).first(length), cache_with(3))),
          Error)
          << length;
    }
  }
  for (const Bytes& plan :
       {encode(sample_plan(), 3), encode(sample_plan_of_a_set(), 9), encode(sample_plan_of_groups(), 4)}) {
    for (std::size_t length = 0; length < plan.size(); ++length) {
      Cache cache = cache_with(3);
      EXPECT_THROW(static_cast<void>(decode_plan(std::span(plan).first(length), cache)), Error) << length;
    }
  }
  const Bytes join = encode_join(5);
  EXPECT_THROW(static_cast<void>(decode_join(std::span(join).first(1))), Error);
}

TEST(Message, a_number_of_tensors_that_cannot_be_true_is_an_error) {
  // The only bytes that tell no tensors from one are the number and what follows it.
  const auto announced = [](const Signature& signature) {
    return encode(std::vector<Announcement>{{{"x", 0}, 0, {{signature, {}}}}});
  };
  const Bytes intact = announced({});
  const Bytes one = announced({.tensors = {{DType::kBool, {}}}});
  const auto number = std::ranges::mismatch(intact, one).in1;
  Bytes damaged(intact.begin(), number);
  for (int byte = 0; byte < 5; ++byte) damaged.push_back(std::byte{0xff});
  damaged.push_back(std::byte{0x7f});
  damaged.insert(damaged.end(), number + 1, intact.end());
  EXPECT_THROW(static_cast<void>(decode_announcements(damaged, cache_with(3))), Error);
}

TEST(Message, a_damaged_one_never_crashes_its_reader) {
  std::mt19937 random(11);
  const std::vector<Bytes> intact{encode(sample_announcements()),    encode(sample_plan(), 3),
                                  encode(sample_groups()),           encode(sample_plan_of_groups(), 4),
                                  encode(sample_plan_of_a_set(), 9), encode_join(300),
                                  encode(Departure{1, "x"})};
  for (int round = 0; round < 20000; ++round) {
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
        case MessageKind::kJoin:
          static_cast<void>(decode_join(message));
          break;
        default:
          static_cast<void>(decode_departure(message));
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kSessionFailed);
    }
  }
}

TEST(Message, with_bytes_behind_its_end_is_an_error) {
  const auto longer = [](Bytes message) {
    message.push_back(std::byte{0});
    return message;
  };
  Cache cache = cache_with(3);
  EXPECT_THROW(static_cast<void>(decode_announcements(longer(encode(sample_announcements())), cache)), Error);
  EXPECT_THROW(static_cast<void>(decode_plan(longer(encode(sample_plan(), 3)), cache)), Error);
  EXPECT_THROW(static_cast<void>(decode_join(longer(encode_join(3)))), Error);
  EXPECT_THROW(static_cast<void>(decode_waits(longer(encode_waits({})))), Error);
  EXPECT_THROW(static_cast<void>(decode_departure(longer(encode(Departure{1, "x"})))), Error);
  EXPECT_THROW(static_cast<void>(decode_failure(longer(encode(Failure{1, "x"})))), Error);
  EXPECT_THROW(static_cast<void>(decode_caller_question(longer(encode(CallerQuestion{})))), Error);
  EXPECT_THROW(static_cast<void>(decode_caller_answer(longer(encode(CallerAnswer{})))), Error);
}

TEST(Message, that_speaks_of_nothing_is_an_error) {
  Cache cache = cache_with(3);
  Plan empty;
  empty.batches.resize(1);
  EXPECT_THROW(static_cast<void>(decode_plan(encode(empty, 4), cache)), Error);
  EXPECT_THROW(static_cast<void>(
                   decode_announcements(encode(std::vector<Announcement>{{{"x", 0}, 0, {}, {}}}), cache)),
               Error);
}

TEST(Message, an_id_of_a_tensor_of_another_set_is_an_error) {
  Cache cache = cache_with(3);
  Plan plan;
  plan.batches.push_back({.entries = {{{"t3", 0}, shaped({3}), 3}}, .contributors = 1});
  EXPECT_THROW(static_cast<void>(decode_plan(encode(plan, 4), cache)), Error);
}

}  // namespace
}  // namespace hora
