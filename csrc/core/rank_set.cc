#include "core/rank_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/text.h"

namespace hora {

RankSet::RankSet(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  for (std::size_t at = 0; at < ranks.size();) {
    // A run of two far ranks gains nothing over two single ranks, so strides start at three members.
    std::size_t end = at + 1;
    const int stride = end < ranks.size() ? ranks[end] - ranks[at] : 1;
    while (end < ranks.size() && ranks[end] - ranks[end - 1] == stride) ++end;
    if (stride != 1 && end - at < 3) end = at + 1;
    const auto count = static_cast<int>(end - at);
    runs_.push_back({ranks[at], count, count > 1 ? stride : 1});
    at = end;
  }
}

RankSet RankSet::range(int first, int count) {
  RankSet set;
  if (count > 0) set.runs_.push_back({first, count, 1});
  return set;
}

void RankSet::merge(const RankSet& other) {
  std::vector<int> ranks = to_vector();
  const std::vector<int> more = other.to_vector();
  ranks.insert(ranks.end(), more.begin(), more.end());
  *this = RankSet(std::move(ranks));
}

std::vector<int> RankSet::to_vector() const {
  std::vector<int> ranks;
  for (const Run& run : runs_) {
    for (int step = 0; step < run.count; ++step) ranks.push_back(run.first + step * run.stride);
  }
  return ranks;
}

int RankSet::size() const {
  return std::accumulate(runs_.begin(), runs_.end(), 0,
                         [](int sum, const Run& run) { return sum + run.count; });
}

bool RankSet::contains(int rank) const {
  return std::ranges::any_of(runs_, [rank](const Run& run) {
    const int distance = rank - run.first;
    return distance >= 0 && distance % run.stride == 0 && distance / run.stride < run.count;
  });
}

std::string RankSet::to_string() const {
  std::vector<std::string> parts;
  for (const Run& run : runs_) {
    const int second = run.first + run.stride;
    if (run.count > 3 && run.stride != 1) {
      parts.push_back(fmt::format("{},{},..,{}", run.first, second, run.last()));
    } else if (run.count > 2 && run.stride == 1) {
      parts.push_back(fmt::format("{}-{}", run.first, run.last()));
    } else {
      for (int step = 0; step < run.count; ++step)
        parts.push_back(fmt::format("{}", run.first + step * run.stride));
    }
  }
  return join(parts, ",");
}

void RankSet::write(ByteWriter& out) const {
  out.varint(runs_.size());
  for (const Run& run : runs_) {
    out.varint(static_cast<std::uint64_t>(run.first));
    out.varint(static_cast<std::uint64_t>(run.count));
    out.varint(static_cast<std::uint64_t>(run.stride));
  }
}

/// Whatever comes is a set: ascending, and no larger than its highest rank.
RankSet RankSet::read(ByteReader& in) {
  RankSet set;
  const std::size_t runs = in.length();
  for (std::size_t at = 0; at < runs; ++at) {
    Run run{};
    run.first = in.up_to(kMostRanks - 1);
    run.count = in.up_to(kMostRanks);
    run.stride = in.up_to(kMostRanks);
    const std::int64_t last = run.first + (std::int64_t{run.count} - 1) * run.stride;
    if (run.count == 0 || run.stride == 0 || last >= kMostRanks) in.fail("ranks that cannot be");
    if (!set.empty() && run.first <= set.highest()) in.fail("ranks are not in order");
    set.runs_.push_back(run);
  }
  return set;
}

}  // namespace hora
