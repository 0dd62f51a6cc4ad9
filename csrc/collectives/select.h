#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "core/batch.h"

namespace hora {

/// Chooses how batches move their data, at the root of the job.
///
/// Between ranks that share no memory the size decides. Inside a host, which way is best depends on what the
/// cores share, which virtual machines change while they run. So the root times what it runs: for each op and
/// each power of two of sizes, and for all sizes from 1 MiB together, it keeps the last times of every
/// candidate and takes the one whose best recent time is lowest; every now and then another one has a try.
/// Results do not depend on the choice. What a setting fixes is not tried.
class RouteChooser {
 public:
  explicit RouteChooser(const Settings& settings) : fixed_(settings.route) {}

  [[nodiscard]] Route choose(const Batch& batch);

  /// How long this rank took for a batch. A new best route of a kind of batches is returned as a sentence for
  /// the log, else "".
  std::string learn(const Batch& batch, Duration time);

 private:
  static constexpr std::size_t kRecent = 4;

  struct Candidate {
    Route route;
    std::array<Duration, kRecent> recent;  // the last times, in a circle
    std::uint64_t tries = 0;

    [[nodiscard]] Duration best() const;
  };
  /// All batches that are alike.
  struct Kind {
    std::vector<Candidate> candidates;
    std::uint64_t batches = 0;
    std::size_t best = 0;
    std::size_t next_try = 0;
  };
  using Key = std::pair<OpKind, int>;  // and the number of bits of the size, up to that of a large one

  [[nodiscard]] static std::uint64_t bytes_of(const Batch& batch);
  [[nodiscard]] static Key key_of(const Batch& batch);
  [[nodiscard]] std::vector<Candidate> candidates(OpKind op, std::uint64_t bytes) const;

  const RouteSettings fixed_;
  std::map<Key, Kind> kinds_;
};

}  // namespace hora
