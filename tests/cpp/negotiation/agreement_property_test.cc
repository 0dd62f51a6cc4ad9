// Random jobs: any tree, any order in which ranks submit, any interleaving of messages, any moment of
// planning.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>

#include "negotiation/mismatch.h"
#include "support/seeds.h"
#include "support/virtual_job.h"

namespace hora::testing {
namespace {

using ::testing::Each;

/// What one rank will do. Names are used again in every round, once the round before has come out here.
struct Script {
  std::vector<std::vector<Request>> named;  ///< by tensor, one per round
  std::vector<Request> unnamed;             ///< in the order of the program, equal on all ranks
};

class Rank {
 public:
  explicit Rank(Script script) : script_(std::move(script)), next_round_(script_.named.size(), 0) {}

  [[nodiscard]] bool finished() const {
    return next_unnamed_ == script_.unnamed.size() &&
           std::ranges::all_of(next_round_,
                               [this](std::size_t round) { return round == script_.named.front().size(); });
  }

  /// Something this rank may submit now, given what has come out here.
  [[nodiscard]] const Request* choose(std::mt19937& random, const std::vector<Batch>& batches) {
    take_note_of(batches);
    const std::size_t choices = script_.named.size() + 1;
    for (std::size_t tries = 0, at = random() % choices; tries < choices; ++tries, at = (at + 1) % choices) {
      if (at == script_.named.size()) {
        if (next_unnamed_ < script_.unnamed.size()) return &script_.unnamed[next_unnamed_++];
      } else if (const std::size_t round = next_round_[at]; round < script_.named[at].size()) {
        if (seen_[script_.named[at].front().key.name] < round) continue;
        return &script_.named[at][next_round_[at]++];
      }
    }
    return nullptr;
  }

 private:
  void take_note_of(const std::vector<Batch>& batches) {
    for (; noted_ < batches.size(); ++noted_) {
      for (const BatchEntry& entry : batches[noted_].entries) ++seen_[entry.key.name];
    }
  }

  Script script_;
  std::vector<std::size_t> next_round_;
  std::size_t next_unnamed_ = 0;
  std::size_t noted_ = 0;
  std::map<std::string, std::size_t> seen_;
};

constexpr int kRounds = 4;
constexpr int kTensors = 5;
constexpr int kUnnamed = 6;
constexpr int kFarTooMany = 1'000'000;

/// A call of further tensors too: none, one or two more, of the same dtype or another.
Request with_more_tensors(Request request, int more, DType dtype) {
  for (int tensor = 0; tensor < more; ++tensor) request.signature.tensors.push_back({dtype, {1 + tensor}});
  request.bytes = request.signature.bytes();
  return request;
}

/// Calls of which some keep their shape and some change it from round to round; from the third on they have
/// several tensors, in some rounds more than in others.
Script make_script() {
  Script script;
  for (int tensor = 0; tensor < kTensors; ++tensor) {
    std::vector<Request>& rounds = script.named.emplace_back();
    for (int round = 0; round < kRounds; ++round)
      rounds.push_back(with_more_tensors(
          named_request(fmt::format("t{}", tensor), {1 + tensor, tensor % 2 == 0 ? 2 : 2 + round % 2}),
          tensor < 2 ? 0 : (tensor + round) % 3, tensor == 4 ? DType::kInt8 : DType::kFloat32));
  }
  for (int call = 0; call < kUnnamed; ++call)
    script.unnamed.push_back(unnamed_request(static_cast<std::uint64_t>(call + 1), {1 + call % 2}));
  return script;
}

std::vector<Rank> same_for_all(int size) {
  return std::vector<Rank>(static_cast<std::size_t>(size), Rank(make_script()));
}

/// Moves the job in random steps until every rank has submitted all, or `stop` says so.
template <typename Stop>
void run_randomly(VirtualJob& job, std::vector<Rank>& ranks, std::mt19937& random, Stop stop) {
  const unsigned eagerness = 1 + random() % 8;  // of the root to plan, from each step to each eighth
  for (int steps = 0; !stop() && !std::ranges::all_of(ranks, &Rank::finished); ++steps) {
    if (steps > kFarTooMany) throw std::runtime_error("some rank waits for ever for a tensor to come out");
    if (random() % eagerness == 0) job.cut();
    if (random() % 2 == 0 && job.deliver(random)) continue;
    const int rank = static_cast<int>(random() % ranks.size());
    if (const Request* request = ranks[static_cast<std::size_t>(rank)].choose(random, job.batches(rank)))
      job.submit(rank, *request);
    else if (!job.deliver(random))
      job.cut();
  }
}

void run_randomly(VirtualJob& job, std::vector<Rank>& ranks, std::mt19937& random) {
  run_randomly(job, ranks, random, [] { return false; });
}

/// How often each tensor came out, by its key.
std::map<std::string, int> occurrences(const std::vector<Batch>& batches) {
  std::map<std::string, int> counts;
  for (const Batch& batch : batches) {
    for (const BatchEntry& entry : batch.entries) ++counts[entry.key.to_string()];
  }
  return counts;
}

std::map<std::string, int> expected_occurrences() {
  std::map<std::string, int> counts;
  for (int tensor = 0; tensor < kTensors; ++tensor) counts[fmt::format("'t{}'", tensor)] = kRounds;
  for (int call = 1; call <= kUnnamed; ++call) counts[fmt::format("unnamed call {}", call)] = 1;
  return counts;
}

void expect_same_sequence_everywhere(const VirtualJob& job) {
  const std::vector<std::string> first = describe_batches(job.batches(0));
  for (int rank = 1; rank < job.size(); ++rank)
    ASSERT_EQ(describe_batches(job.batches(rank)), first) << "rank " << rank;
}

TEST(Agreement, all_ranks_get_the_same_batches_with_every_tensor_exactly_once) {
  for_seeds(80, 40, [](std::mt19937& random, const JobShape& shape) {
    VirtualJob job(shape, random_options(random));
    std::vector<Rank> ranks = same_for_all(shape.size());
    run_randomly(job, ranks, random);
    job.settle();
    expect_same_sequence_everywhere(job);
    EXPECT_EQ(occurrences(job.batches(0)), expected_occurrences());
    for (const Batch& batch : job.batches(0)) EXPECT_EQ(batch.error, "");
  });
}

TEST(Agreement, each_round_of_a_name_comes_out_with_its_own_tensors) {
  for_seeds(40, 20, [](std::mt19937& random, const JobShape& shape) {
    VirtualJob job(shape, random_options(random));
    std::vector<Rank> ranks = same_for_all(shape.size());
    run_randomly(job, ranks, random);
    job.settle();
    std::map<std::string, std::vector<std::vector<TensorType>>> tensors;
    for (const Batch& batch : job.batches(0)) {
      for (const BatchEntry& entry : batch.entries)
        tensors[entry.key.name].push_back(entry.signature->tensors);
    }
    for (const std::vector<Request>& rounds : make_script().named) {
      std::vector<std::vector<TensorType>> expected;
      for (const Request& request : rounds) expected.push_back(request.signature.tensors);
      EXPECT_EQ(tensors[rounds.front().key.name], expected);
    }
  });
}

TEST(Agreement, batches_never_exceed_the_fusion_threshold_unless_one_call_does) {
  constexpr std::uint64_t kThreshold = 30;
  for_seeds(40, 12, [](std::mt19937& random, const JobShape& shape) {
    VirtualJob job(shape, negotiator_options(kThreshold));
    std::vector<Rank> ranks = same_for_all(shape.size());
    run_randomly(job, ranks, random);
    job.settle();
    for (const Batch& batch : job.batches(0)) {
      std::uint64_t bytes = 0;
      for (const BatchEntry& entry : batch.entries) bytes += entry.signature->bytes();
      EXPECT_TRUE(bytes <= kThreshold || batch.entries.size() == 1);
    }
  });
}

TEST(Agreement, after_the_first_rounds_no_message_carries_a_name) {
  for_seeds(40, 40, [](std::mt19937& random, const JobShape& shape) {
    VirtualJob job(shape, negotiator_options());
    std::vector<Rank> warm_up = same_for_all(shape.size());
    run_randomly(job, warm_up, random);
    job.settle();
    std::uint64_t longest = 0;
    job.on_send = [&](int, int, const Bytes& message) {
      longest = std::max<std::uint64_t>(longest, message.size());
    };
    const std::uint64_t before = job.messages();
    for (int rank = 0; rank < shape.size(); ++rank) {
      for (const std::vector<Request>& rounds : make_script().named) job.submit(rank, rounds.front());
    }
    job.settle();
    // Kind, count and per tensor an id and a number; a plan adds the frame of each batch.
    EXPECT_LE(longest, 4u + kTensors * 8);
    EXPECT_LE(job.messages() - before, static_cast<std::uint64_t>(2 * kTensors * (shape.size() - 1)));
    expect_same_sequence_everywhere(job);
  });
}

TEST(Agreement, ids_mean_the_same_on_every_rank) {
  for_seeds(40, 40, [](std::mt19937& random, const JobShape& shape) {
    VirtualJob job(shape, random_options(random));
    std::vector<Rank> ranks = same_for_all(shape.size());
    run_randomly(job, ranks, random);
    job.settle();
    for (int rank = 1; rank < shape.size(); ++rank) {
      ASSERT_EQ(job.at(rank).cache().last_id(), job.at(0).cache().last_id());
      for (std::uint32_t id = 1; id <= job.at(0).cache().last_id(); ++id) {
        ASSERT_EQ(job.at(rank).cache().get(id).name, job.at(0).cache().get(id).name);
        ASSERT_EQ(job.at(rank).cache().get(id).signature, job.at(0).cache().get(id).signature);
      }
    }
  });
}

/// Ranks that send something else for the last round of t0: another shape, a refusal, or one more tensor.
struct Dissent {
  Signature signature;
  std::vector<int> ranks;
};

std::vector<Dissent> random_dissent(std::mt19937& random, int size, const Signature& usual) {
  std::vector<Dissent> ways{{usual, {}}, {usual, {}}, {usual, {}}, {usual, {}}};
  ways[1].signature.tensors = {{DType::kFloat32, {99}}};
  ways[2].signature.refusal = "it was not in the mood";
  ways[3].signature.tensors.push_back({DType::kInt8, {5}});
  const unsigned most = 1 + random() % 4;
  for (int rank = 0; rank < size; ++rank) ways[random() % most].ranks.push_back(rank);
  std::erase_if(ways, [](const Dissent& way) { return way.ranks.empty(); });
  return ways;
}

TEST(Agreement, a_mismatch_names_exactly_the_ranks_that_sent_each_variant) {
  for_seeds(100, 40, [](std::mt19937& random, const JobShape& shape) {
    const Script usual = make_script();
    const Request& last = usual.named[0].back();
    const std::vector<Dissent> dissent = random_dissent(random, shape.size(), last.signature);
    std::vector<Script> scripts(static_cast<std::size_t>(shape.size()), usual);
    std::vector<Variant> variants;
    for (const Dissent& way : dissent) {
      for (const int rank : way.ranks)
        scripts[static_cast<std::size_t>(rank)].named[0].back().signature = way.signature;
      variants.push_back({way.signature, RankSet(way.ranks)});
    }
    const bool agree = dissent.size() == 1 && dissent[0].signature.refusal.empty();
    const std::string expected = agree ? "" : describe_mismatch(last.key, variants);

    VirtualJob job(shape, random_options(random));
    std::vector<Rank> ranks(scripts.begin(), scripts.end());
    run_randomly(job, ranks, random);
    job.settle();
    expect_same_sequence_everywhere(job);
    EXPECT_EQ(occurrences(job.batches(0)), expected_occurrences());
    std::vector<std::string> errors;
    for (const Batch& batch : job.batches(0)) {
      if (batch.entries.front().key == last.key) errors.push_back(batch.error);
    }
    EXPECT_EQ(errors.back(), expected);
    errors.pop_back();
    EXPECT_THAT(errors, Each(""));
  });
}

TEST(Agreement, a_departure_cuts_the_sequence_at_the_same_place_everywhere) {
  for_seeds(100, 40, [](std::mt19937& random, const JobShape& shape) {
    VirtualJob job(shape, random_options(random));
    std::vector<Rank> ranks = same_for_all(shape.size());
    int steps_left = static_cast<int>(random() % 1500);
    run_randomly(job, ranks, random, [&] { return steps_left-- == 0; });
    for (unsigned leavers = 1 + random() % 3; leavers > 0; --leavers)
      job.leave(static_cast<int>(random() % static_cast<unsigned>(shape.size())), "it was shut down");
    int steps_after = static_cast<int>(random() % 300);
    run_randomly(job, ranks, random, [&] { return steps_after-- == 0; });
    job.settle();
    expect_same_sequence_everywhere(job);
    for (int rank = 0; rank < shape.size(); ++rank) {
      ASSERT_TRUE(job.departure(rank).has_value());
      EXPECT_EQ(job.departure(rank)->rank, job.departure(0)->rank);
      EXPECT_EQ(job.late_plans(rank), 0);
    }
  });
}

TEST(Agreement, a_failure_at_any_moment_reaches_every_rank) {
  for_seeds(100, 40, [](std::mt19937& random, const JobShape& shape) {
    VirtualJob job(shape, random_options(random));
    std::vector<Rank> ranks = same_for_all(shape.size());
    int steps_left = static_cast<int>(random() % 1500);
    run_randomly(job, ranks, random, [&] { return steps_left-- == 0; });
    if (random() % 4 == 0)
      job.leave(static_cast<int>(random() % static_cast<unsigned>(shape.size())), "it was shut down");
    const int failing = static_cast<int>(random() % static_cast<unsigned>(shape.size()));
    int notes = 0;
    job.on_send = [&](int, int, const Bytes& message) { notes += kind_of(message) == MessageKind::kFailure; };
    job.fail(failing, "out of memory");
    job.settle();
    EXPECT_LE(notes, 2 * (shape.size() - 1));
    for (int rank = 0; rank < shape.size(); ++rank) {
      ASSERT_TRUE(job.failure(rank).has_value()) << "rank " << rank;
      EXPECT_EQ(job.failure(rank)->rank, failing);
    }
  });
}

TEST(Agreement, what_came_out_before_a_failure_is_a_beginning_of_one_sequence) {
  for_seeds(100, 40, [](std::mt19937& random, const JobShape& shape) {
    VirtualJob job(shape, random_options(random));
    std::vector<Rank> ranks = same_for_all(shape.size());
    int steps_left = static_cast<int>(random() % 1500);
    run_randomly(job, ranks, random, [&] { return steps_left-- == 0; });
    job.fail(static_cast<int>(random() % static_cast<unsigned>(shape.size())), "out of memory");
    job.settle();
    const std::vector<std::string> all = describe_batches(job.batches(0));
    for (int rank = 1; rank < shape.size(); ++rank) {
      const std::vector<std::string> some = describe_batches(job.batches(rank));
      ASSERT_LE(some.size(), all.size());
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << "rank " << rank;
    }
  });
}

}  // namespace
}  // namespace hora::testing
