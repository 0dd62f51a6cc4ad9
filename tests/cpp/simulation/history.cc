#include "simulation/history.h"

#include <fmt/format.h>

#include <algorithm>

namespace hora::simulation {

std::string CallRecord::to_string() const {
  return fmt::format("{} of set {} (phase {}, time {})", key.to_string(), key.process_set, phase, time);
}

std::size_t History::call(const Key& key, int phase, int time) {
  const auto [found, is_new] =
      numbers_.try_emplace({key.process_set, key.name, key.number, phase, time}, calls.size());
  if (is_new) calls.push_back({key, phase, time});
  return found->second;
}

std::size_t History::submit(int rank, std::size_t call, const SharedSignature& signature) {
  submissions.push_back({rank, call, signature});
  calls[call].submissions.push_back(submissions.size() - 1);
  return submissions.size() - 1;
}

bool History::is_member(int rank, std::int32_t set) const {
  const auto found = sets.find(set);
  return found != sets.end() && std::ranges::binary_search(found->second, rank);
}

bool History::has_joined(int rank, int phase) const {
  const Key join = Key::join();
  const auto found = numbers_.find({kGlobalSet, join.name, join.number, phase, 0});
  if (found == numbers_.end()) return false;
  return std::ranges::any_of(calls[found->second].submissions,
                             [&](std::size_t submission) { return submissions[submission].rank == rank; });
}

std::vector<int> History::missing(const CallRecord& call) const {
  const auto set = sets.find(call.key.process_set);
  if (set == sets.end()) return {};
  std::vector<int> ranks = set->second;
  std::erase_if(ranks, [&](int rank) {
    if (call.key.process_set == kGlobalSet && has_joined(rank, call.phase)) return true;
    return std::ranges::any_of(call.submissions,
                               [&](std::size_t each) { return submissions[each].rank == rank; });
  });
  return ranks;
}

}  // namespace hora::simulation
