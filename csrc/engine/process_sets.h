#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/placement.h"
#include "core/request.h"

namespace hora {

/// The process sets of a session: changed by the engine when an agreed change is run, looked up by user
/// threads.
///
/// Lock map: sets_ -> mutex_; the lists themselves never change.
class ProcessSets {
 public:
  /// Begins with the global set of `size` ranks.
  explicit ProcessSets(int size);

  /// The ranks of a set, ascending, or null when there is none of this id.
  [[nodiscard]] RankList find(std::int32_t process_set) const;
  void add(std::int32_t process_set, const std::vector<int>& ranks);
  void remove(std::int32_t process_set);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::int32_t, RankList> sets_;
};

}  // namespace hora
