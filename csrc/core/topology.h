#pragma once

#include <vector>

namespace hora {

/// Where the ranks of a job run. Hosts are numbered by their lowest rank, so rank 0 is on host 0.
class Topology {
 public:
  /// `host_of[r]` is any number that is equal for ranks of one host and different otherwise.
  Topology(int rank, const std::vector<int>& host_of);

  /// A made-up spread: the first `ranks_per_host[0]` ranks on one host, and so on. Throws
  /// Error(kInvalidArgument) unless the numbers sum up to `size`.
  [[nodiscard]] static Topology split(int rank, int size, const std::vector<int>& ranks_per_host);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(host_of_.size()); }
  [[nodiscard]] int host_count() const { return static_cast<int>(ranks_on_.size()); }
  [[nodiscard]] int host_of(int rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const std::vector<int>& ranks_on(int host) const {
    return ranks_on_[static_cast<std::size_t>(host)];
  }

  [[nodiscard]] int local_rank() const { return local_rank_; }
  [[nodiscard]] int local_size() const { return static_cast<int>(ranks_on(host_of(rank_)).size()); }
  /// Number of this host among the hosts that have a rank with this local rank, and how many those are.
  [[nodiscard]] int cross_rank() const;
  [[nodiscard]] int cross_size() const;
  [[nodiscard]] bool is_homogeneous() const;

 private:
  int rank_;
  int local_rank_ = 0;
  std::vector<int> host_of_;
  std::vector<std::vector<int>> ranks_on_;
};

}  // namespace hora
