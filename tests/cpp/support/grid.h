#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "api/session.h"
#include "support/reference.h"

namespace hora::testing {

struct AllreduceCase {
  DType dtype;
  ReduceOp op;
  std::size_t length;
  bool in_place;
  Factors factors = {};
};

/// Calls in flight whose results will be checked. All ranks start the same checks, then finish.
///
/// Every rank knows what every other sends, so it compares its own result with the serial reference; then the
/// ranks make sure that they hold the same bits. Differences are gtest failures that name the case. Settings
/// decide what travels together.
class Grid {
 public:
  explicit Grid(Session& session) : session_(session) {}
  ~Grid();
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  void allreduce(const AllreduceCase& kase);
  /// Every rank contributes `rows[rank]` rows of `row_length` elements.
  void allgather(DType dtype, const std::vector<std::int64_t>& rows, std::int64_t row_length);
  void broadcast(DType dtype, std::size_t length, int root, bool in_place);

  void finish();

 private:
  /// Compares the result of a completed call with the reference and returns its bytes.
  using Compare = std::function<Bytes(const Handle& handle)>;
  void start(Call call, Compare compare);

  struct Check {
    HandlePtr handle;
    Compare compare;
  };
  Session& session_;
  std::vector<Check> checks_;
};

/// One check alone.
void check_allreduce(Session& session, const AllreduceCase& kase);
void check_allgather(Session& session, DType dtype, const std::vector<std::int64_t>& rows,
                     std::int64_t row_length);
void check_broadcast(Session& session, DType dtype, std::size_t length, int root, bool in_place);

/// Fails unless `bytes` are equal on all ranks.
void expect_same_on_all_ranks(Session& session, const Bytes& bytes);

/// The lengths at which chunks become empty, equal and unequal, and one that is large.
[[nodiscard]] std::vector<std::size_t> critical_lengths(int ranks, std::size_t large);

/// The reduce ops that are defined for a type.
[[nodiscard]] std::vector<ReduceOp> ops_of(DType dtype);

}  // namespace hora::testing
