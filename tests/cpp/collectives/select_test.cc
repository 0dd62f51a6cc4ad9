#include "collectives/select.h"

#include <gmock/gmock.h>

#include <set>

namespace hora {
namespace {

using namespace std::chrono_literals;

Batch allreduce_of(std::int64_t bytes) {
  Batch batch;
  Signature signature;
  signature.op = OpKind::kAllreduce;
  signature.tensors = {{DType::kUInt8, {bytes}}};
  batch.entries.push_back({{"x"}, signature, 1});
  return batch;
}

/// Runs batches of one kind whose time depends on the route; the route of the last one.
template <typename Time>
Route run(RouteChooser& chooser, Batch batch, int count, Time time) {
  for (int at = 0; at < count; ++at) {
    batch.route = chooser.choose(batch);
    static_cast<void>(chooser.learn(batch, time(batch.route)));
  }
  return batch.route;
}

/// The route taken most often.
template <typename Time>
Route favourite(RouteChooser& chooser, const Batch& batch, Time time) {
  std::vector<Route> taken;
  for (int at = 0; at < 101; ++at) taken.push_back(run(chooser, batch, 1, time));
  return *std::ranges::max_element(taken, {},
                                   [&](const Route& route) { return std::ranges::count(taken, route); });
}

TEST(RouteChooser, finds_the_fastest_route) {
  for (const bool streaming : {false, true}) {
    for (const std::uint32_t block : {128u << 10, 256u << 10, 512u << 10}) {
      RouteChooser chooser({});
      const auto time = [&](const Route& route) {
        return (route.streaming == streaming ? 1ms : 2ms) + (route.block_bytes == block ? 0ms : 3ms);
      };
      run(chooser, allreduce_of(1 << 24), 400, time);
      const Route best = favourite(chooser, allreduce_of(1 << 24), time);
      EXPECT_EQ(best.streaming, streaming);
      EXPECT_EQ(best.block_bytes, block);
    }
  }
}

TEST(RouteChooser, follows_a_machine_that_changes) {
  RouteChooser chooser({});
  const auto likes = [](bool streaming) {
    return [=](const Route& route) { return route.streaming == streaming ? 1ms : 2ms; };
  };
  run(chooser, allreduce_of(1 << 20), 1000, likes(false));
  EXPECT_FALSE(favourite(chooser, allreduce_of(1 << 20), likes(false)).streaming);
  run(chooser, allreduce_of(1 << 20), 4000, likes(true));
  EXPECT_TRUE(favourite(chooser, allreduce_of(1 << 20), likes(true)).streaming);
}

TEST(RouteChooser, sizes_are_learned_apart) {
  RouteChooser chooser({});
  const auto likes = [](bool streaming) {
    return [=](const Route& route) { return route.streaming == streaming ? 1ms : 2ms; };
  };
  run(chooser, allreduce_of(1 << 17), 1000, likes(false));
  run(chooser, allreduce_of(1 << 24), 1000, likes(true));
  EXPECT_FALSE(favourite(chooser, allreduce_of(1 << 17), likes(false)).streaming);
  EXPECT_TRUE(favourite(chooser, allreduce_of(1 << 24), likes(true)).streaming);
}

TEST(RouteChooser, large_sizes_are_learned_together_by_their_speed) {
  RouteChooser chooser({});
  const auto time = [](std::int64_t mebibytes) {
    return [=](const Route& route) { return (route.streaming ? 1ms : 2ms) * mebibytes; };
  };
  // The fastest way of a long tensor takes longer than any of a short one.
  for (int at = 0; at < 100; ++at) {
    run(chooser, allreduce_of(1 << 20), 1, time(1));
    run(chooser, allreduce_of(64 << 20), 1, time(64));
  }
  EXPECT_TRUE(favourite(chooser, allreduce_of(1 << 20), time(1)).streaming);
  EXPECT_TRUE(favourite(chooser, allreduce_of(256 << 20), time(256)).streaming);
}

TEST(RouteChooser, tries_every_way_once_within_the_first_batches) {
  RouteChooser chooser({});
  std::vector<Route> tried;
  for (int at = 0; at < 14; ++at) {
    const Route route = chooser.choose(allreduce_of(1 << 24));
    if (std::ranges::find(tried, route) == tried.end()) tried.push_back(route);
  }
  EXPECT_EQ(tried.size(), 6u);
}

TEST(RouteChooser, small_batches_take_one_phase_at_once) {
  RouteChooser chooser({});
  for (int at = 0; at < 100; ++at)
    EXPECT_EQ(chooser.choose(allreduce_of(1000)).reduction, Route::Reduction::kOnePhase);
}

TEST(RouteChooser, what_is_fixed_is_not_tried) {
  Settings settings;
  settings.route = {.one_phase = false, .streaming = true, .block_bytes = 4096, .doubling = true};
  RouteChooser chooser(settings);
  const Route fixed{Route::Reduction::kTwoPhase, true, 4096, Route::Across::kDoubling};
  for (const std::int64_t bytes : {1, 100'000, 100'000'000}) {
    for (int at = 0; at < 100; ++at) EXPECT_EQ(chooser.choose(allreduce_of(bytes)), fixed);
  }
}

TEST(RouteChooser, short_tensors_cross_hosts_in_few_messages) {
  RouteChooser chooser({});
  EXPECT_EQ(chooser.choose(allreduce_of(4)).across, Route::Across::kDoubling);
  EXPECT_EQ(chooser.choose(allreduce_of(60'000)).across, Route::Across::kDoubling);
  EXPECT_EQ(chooser.choose(allreduce_of(70'000)).across, Route::Across::kRing);
}

TEST(RouteChooser, says_when_another_route_has_become_the_best) {
  RouteChooser chooser({});
  Batch batch = allreduce_of(1 << 20);
  std::string news;
  for (int at = 0; at < 200; ++at) {
    batch.route = chooser.choose(batch);
    news += chooser.learn(batch, batch.route.streaming ? 1ms : 2ms);
  }
  EXPECT_THAT(news, ::testing::HasSubstr("allreduce of 1 MiB and more"));
  EXPECT_THAT(news, ::testing::HasSubstr("streaming stores"));
}

TEST(RouteChooser, an_unknown_size_has_a_route) {
  RouteChooser chooser({});
  Batch batch = allreduce_of(Signature::kRagged);
  Signature ragged = batch.signature();
  ragged.op = OpKind::kAllgather;
  batch.entries.front().signature = ragged;
  EXPECT_GE(chooser.choose(batch).block_bytes, Route::kLeastBlockBytes);
}

}  // namespace
}  // namespace hora
