#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/route.h"
#include "support/shared_values.h"

namespace hora::testing {

struct RouteCase {
  int ranks;
  Route route;
};

inline std::string name_of(const ::testing::TestParamInfo<RouteCase>& info) {
  const Route& route = info.param.route;
  return fmt::format("{}_ranks_{}_phase_{}_blocks_of_{}", info.param.ranks,
                     route.reduction == Route::Reduction::kOnePhase ? "one" : "two",
                     route.streaming ? "streaming" : "ordinary", route.block_bytes);
}

inline std::vector<RouteCase> all_routes() {
  std::vector<RouteCase> cases;
  for (const int ranks : {2, 3, 4, 7}) {
    for (const auto reduction : {Route::Reduction::kOnePhase, Route::Reduction::kTwoPhase}) {
      for (const bool streaming : {false, true}) {
        for (const std::uint32_t block : {64u, 1000u, 4096u, 1u << 19})
          cases.push_back({ranks, {reduction, streaming, block}});
      }
    }
  }
  return cases;
}

/// Around the sizes of notes, lines, blocks and the ring of slots.
inline std::vector<std::size_t> lengths_around(const Route& route) {
  std::vector<std::size_t> lengths{0, 1, 2, 13, 14, 15, 16, 17};
  const std::size_t block = std::min<std::size_t>(route.block_bytes, kSlotBytes) / sizeof(float);
  for (const std::size_t blocks : {1, 2, 4, 5}) {
    for (const std::size_t length : {blocks * block - 1, blocks * block, blocks * block + 1})
      lengths.push_back(length);
  }
  return lengths;
}

}  // namespace hora::testing
