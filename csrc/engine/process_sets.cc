#include "engine/process_sets.h"

#include <numeric>

namespace hora {

ProcessSets::ProcessSets(int size) {
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  add(kGlobalSet, all);
}

RankList ProcessSets::find(std::int32_t process_set) const {
  const std::lock_guard lock(mutex_);
  const auto found = sets_.find(process_set);
  return found == sets_.end() ? nullptr : found->second;
}

void ProcessSets::add(std::int32_t process_set, const std::vector<int>& ranks) {
  const std::lock_guard lock(mutex_);
  sets_[process_set] = std::make_shared<const std::vector<int>>(ranks);
}

void ProcessSets::remove(std::int32_t process_set) {
  const std::lock_guard lock(mutex_);
  sets_.erase(process_set);
}

}  // namespace hora
