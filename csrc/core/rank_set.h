#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"

namespace hora {

/// Beyond any job; a higher rank in a message is damage.
inline constexpr int kMostRanks = 1 << 24;

/// An ordered set of ranks, kept as strided runs, so that "every second of 32,768 ranks" costs one run.
class RankSet {
 public:
  RankSet() = default;
  explicit RankSet(std::vector<int> ranks);
  [[nodiscard]] static RankSet single(int rank) { return RankSet({rank}); }
  [[nodiscard]] static RankSet range(int first, int count);

  void merge(const RankSet& other);

  [[nodiscard]] std::vector<int> to_vector() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] bool contains(int rank) const;
  [[nodiscard]] bool empty() const { return runs_.empty(); }
  [[nodiscard]] int lowest() const { return runs_.front().first; }
  [[nodiscard]] int highest() const { return runs_.back().last(); }

  /// "0-2,4-7", or "0,2,4,..,30" for a stride.
  [[nodiscard]] std::string to_string() const;

  void write(ByteWriter& out) const;
  [[nodiscard]] static RankSet read(ByteReader& in);

  bool operator==(const RankSet&) const = default;

 private:
  struct Run {
    int first;
    int count;
    int stride;
    [[nodiscard]] int last() const { return first + (count - 1) * stride; }
    bool operator==(const Run&) const = default;
  };
  std::vector<Run> runs_;
};

}  // namespace hora
