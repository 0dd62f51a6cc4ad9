#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "api/session.h"
#include "attributes.h"
#include "base/clock.h"
#include "tensors.h"

namespace hora::tensorflow {

/// One run of a kernel, from TensorFlow's call until it is told that outputs or an error are there. The
/// context holds the inputs meanwhile. Used by one thread after the other: that of TensorFlow which begins
/// it, and the one that ends it.
class RunningCall {
 public:
  RunningCall(KernelContext& context, std::function<void()> done)
      : context_(context), done_(std::move(done)) {}

  /// Submits the call. What is wrong on this rank is told to the others, then thrown.
  void submit(const Attributes& attributes);

  /// Blocks until the operation is complete, and takes part in the work.
  void wait();
  /// The same for so long; says whether it is complete.
  [[nodiscard]] bool wait_for(Duration patience);
  /// Has the thread of completions end this call when the operation is complete.
  static void end_later(std::unique_ptr<RunningCall> call);

  /// Once complete: hands over the results, or the error, and goes on with the graph.
  void end();
  void fail(const std::exception& error);

 private:
  [[nodiscard]] Call to_call(const Attributes& attributes);
  void add_tensors(Call& call);
  void add_tensor(Call& call, int index);
  void set_results();

  KernelContext& context_;
  const std::function<void()> done_;
  OpKind op_ = OpKind::kJoin;
  std::shared_ptr<Session> session_;
  HandlePtr handle_;
  std::optional<Session::Attention> attention_;
  std::vector<TensorPtr> results_;  // that TensorFlow has allocated
};

}  // namespace hora::tensorflow
