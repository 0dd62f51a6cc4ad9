#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/session.h"
#include "support/device.h"
#include "support/reference.h"

namespace hora::testing {

struct AllreduceCase {
  DType dtype;
  ReduceOp op;
  std::size_t length;
  bool in_place;
  Factors factors = {};
};

/// Every rank brings `rows` rows of `row_length` elements and gets its share of them.
struct ReducescatterCase {
  DType dtype;
  ReduceOp op;
  std::int64_t rows;
  std::int64_t row_length;
  Factors factors = {};
};

/// Who takes part in a grid.
struct GridScope {
  std::int32_t process_set = kGlobalSet;
  std::vector<int> joined =
      {};  ///< ranks of the global set that contribute nothing, because they have joined
};

/// Calls in flight whose results will be checked. All ranks start the same checks, then finish.
///
/// Every rank knows what every other sends, so it compares its own result with the serial reference; then the
/// ranks make sure that they hold the same bits. Differences are gtest failures that name the case. Settings
/// decide what travels together. In a process set, ranks count within it.
class Grid {
 public:
  explicit Grid(Session& session, const GridScope& scope = {});
  ~Grid();
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  void allreduce(const AllreduceCase& kase);
  /// Every rank contributes `rows[rank]` rows of `row_length` elements.
  void allgather(DType dtype, std::vector<std::int64_t> rows, std::int64_t row_length);
  /// Every rank sends `splits[rank][to]` rows of `row_length` elements to rank `to`.
  void alltoall(DType dtype, std::vector<std::vector<std::int64_t>> splits, std::int64_t row_length);
  void reducescatter(const ReducescatterCase& kase);
  void broadcast(DType dtype, std::size_t length, int root, bool in_place);

  /// What `body` starts travels as one call of several tensors; it may only differ in tensors.
  void group(const std::function<void()>& body);

  void finish();

 private:
  /// Compares the result for one tensor with the reference and returns its bytes if all ranks get the same.
  /// `output` is null where the op does not allocate it.
  using Compare = std::function<Bytes(const Output* output)>;
  void start(Call call, Compare compare);
  void submit(Call call, std::vector<Compare> compares);
  [[nodiscard]] std::vector<double> expected_sum(const AllreduceCase& kase) const;

  struct Check {
    HandlePtr handle;
    std::vector<Compare> compares;            // by tensor
    std::unique_ptr<CallOnDevice> on_device;  // where tests use devices
  };
  [[nodiscard]] std::vector<Output> wait_for(const Check& check);

  Session& session_;
  std::int32_t process_set_;
  std::vector<int> members_;  // ranks of the job
  int rank_;                  // among the members
  int size_;
  std::vector<int> present_;  // numbers of those members that contribute
  std::optional<TestDevice> device_;
  std::vector<Check> checks_;
  bool is_grouping_ = false;
  Call grouped_;
  std::vector<Compare> grouped_compares_;
};

/// One check alone.
void check_allreduce(Session& session, const AllreduceCase& kase);
void check_allgather(Session& session, DType dtype, const std::vector<std::int64_t>& rows,
                     std::int64_t row_length);
void check_broadcast(Session& session, DType dtype, std::size_t length, int root, bool in_place);

/// Fails unless `bytes` are equal on all ranks of the set.
void expect_same_on_all_ranks(Session& session, const Bytes& bytes, std::int32_t process_set = kGlobalSet);

/// The lengths at which chunks become empty, equal and unequal, and one that is large.
[[nodiscard]] std::vector<std::size_t> critical_lengths(int ranks, std::size_t large);

/// The reduce ops that are defined for a type.
[[nodiscard]] std::vector<ReduceOp> ops_of(DType dtype);

}  // namespace hora::testing
