#include "running_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <utility>

#include "api/default_session.h"
#include "base/error.h"
#include "collectives/chunks.h"
#include "completion_thread.h"
#include "status.h"

namespace hora::tensorflow {
namespace {

using namespace std::chrono_literals;

// A session ends all that is under way within its own deadlines.
constexpr auto kWaitStep = 1s;

bool allocates(OpKind op) {
  return op == OpKind::kAllgather || op == OpKind::kAlltoall;
}

// More iterations of one loop than TensorFlow runs at once, unless it is told to.
constexpr std::int64_t kIterations = 64;

/// A node in a loop may be run by several iterations at the same time.
std::string name_of_iteration(KernelContext& context) {
  const std::int64_t iteration = api().iter_id(&context) % kIterations;
  return iteration == 0 ? "" : fmt::format("#{}", iteration);
}

std::int64_t rows_of_rank(std::int64_t rows, int rank, const std::vector<int>& members) {
  const auto member = std::ranges::lower_bound(members, rank) - members.begin();
  return static_cast<std::int64_t>(Chunks(static_cast<std::size_t>(rows), static_cast<int>(members.size()))
                                       .length(static_cast<int>(member)));
}

/// The shape of this rank's part of a tensor.
Shape share_of_rows(const Call& call, const Shape& input, const Session& session) {
  if (input.empty()) raise(ErrorKind::kInvalidArgument, "a scalar has no first dimension to scatter along");
  Shape shape = input;
  shape.front() =
      rows_of_rank(input.front(), session.topology().rank(), session.process_set(call.process_set));
  return shape;
}

std::vector<std::int64_t> read_splits(const Tensor& tensor) {
  const TensorRef splits = describe(tensor);
  if (splits.dtype != DType::kInt64 || splits.shape.size() != 1)
    raise(ErrorKind::kInvalidArgument, "splits must be a 1-d tensor of int64");
  const auto* const values = reinterpret_cast<const std::int64_t*>(splits.data);
  return {values, values + splits.shape.front()};
}

}  // namespace

void RunningCall::submit(const Attributes& attributes) {
  session_ = default_session();
  op_ = attributes.op;
  handle_ = session_->submit(to_call(attributes));
}

Call RunningCall::to_call(const Attributes& attributes) {
  Call call;
  call.op = attributes.op;
  call.name = attributes.name;
  if (attributes.is_node) call.name += name_of_iteration(context_);
  call.reduce = attributes.reduce;
  call.root = attributes.root;
  call.prescale = attributes.prescale;
  call.postscale = attributes.postscale;
  call.process_set = attributes.process_set;
  call.caller = attributes.caller;
  try {
    add_tensors(call);
  } catch (const Error& error) {
    session_->refuse(call.op, call.name, call.process_set, error.what(), call.caller);
    throw;
  }
  return call;
}

void RunningCall::add_tensors(Call& call) {
  int count = api().num_inputs(&context_);
  if (call.op == OpKind::kAlltoall) call.splits = read_splits(*get_input(context_, --count));
  for (int index = 0; index < count; ++index) add_tensor(call, index);
}

void RunningCall::add_tensor(Call& call, int index) {
  CallTensor& tensor = call.tensors.emplace_back(describe(*get_input(context_, index)));
  if (allocates(call.op)) return;
  TensorPtr result = call.op == OpKind::kReducescatter
                         ? allocate_output(context_, index, tensor.input.dtype,
                                           share_of_rows(call, tensor.input.shape, *session_))
                         : reuse_input(context_, index, tensor.input.shape);
  tensor.output = static_cast<std::byte*>(api().tensor_data(result.get()));
  results_.push_back(std::move(result));
}

void RunningCall::wait() {
  while (!wait_for(kWaitStep)) {
  }
}

bool RunningCall::wait_for(Duration patience) {
  return session_->wait_until(*handle_, Clock::now() + patience);
}

void RunningCall::end_later(std::unique_ptr<RunningCall> call) {
  const std::shared_ptr<Completions>& queue = completions();
  const HandlePtr handle = call->handle_;
  call->attention_.emplace(*call->session_);
  handle->report_to(queue, call.release());
}

void RunningCall::end() {
  session_->release(*handle_);
  try {
    if (handle_->error() != nullptr) throw *handle_->error();
    set_results();
  } catch (const std::exception& error) {
    return fail(error);
  }
  results_.clear();  // so that what follows may work in their memory
  done_();
}

void RunningCall::fail(const std::exception& error) {
  results_.clear();
  api().context_failure(&context_, to_status(error).get());
  done_();
}

void RunningCall::set_results() {
  if (op_ == OpKind::kJoin) {
    const std::int64_t last = handle_->value();
    return set_output(context_, 0, {}, std::span(&last, 1));
  }
  if (!allocates(op_)) return;
  const std::vector<Output>& outputs = handle_->outputs();
  std::vector<std::int64_t> rows;
  for (std::size_t tensor = 0; tensor < outputs.size(); ++tensor) {
    set_output(context_, static_cast<int>(tensor), outputs[tensor]);
    const std::vector<std::int64_t>& of_ranks = outputs[tensor].sizes;
    rows.insert(rows.end(), of_ranks.begin(), of_ranks.end());
  }
  const std::int64_t members = std::ssize(rows) / std::ssize(outputs);
  const Shape shape = op_ == OpKind::kAlltoall ? Shape{members} : Shape{std::ssize(outputs), members};
  set_output(context_, static_cast<int>(outputs.size()), shape, rows);
}

}  // namespace hora::tensorflow
