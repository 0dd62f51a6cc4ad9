#pragma once

#include <mpi.h>

#include <vector>

namespace hora::benchmarks {

/// The processes of this mpirun on a communicator of their own: where they begin, and what the slowest
/// needed.
class Ranks {
 public:
  Ranks();
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  [[nodiscard]] MPI_Comm communicator() const { return communicator_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  void barrier() const;

  /// The element-wise maximum over the ranks, of vectors of one length.
  [[nodiscard]] std::vector<double> largest(std::vector<double> values) const;

  /// One-way latency between the cores of ranks 0 and 1 in us; NaN without a second rank on this host. The
  /// other ranks sleep meanwhile. Returns the same on every rank.
  [[nodiscard]] double one_way_us() const;

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  void* shared_ = nullptr;  ///< a page of rank 0 that all ranks of its host see
  int rank_ = 0;
  int size_ = 0;
};

}  // namespace hora::benchmarks
