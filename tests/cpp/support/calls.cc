#include "support/calls.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "stand_ins/fake_cuda.h"

namespace hora::testing {
namespace {

constexpr std::chrono::seconds kFarTooLong{45};

void await(Session& session, const HandlePtr& handle) {
  if (!session.wait_until(*handle, Clock::now() + kFarTooLong))
    throw std::runtime_error(
        fmt::format("{} did not complete within {} s", handle->key().to_string(), kFarTooLong.count()));
  session.release(*handle);
}

}  // namespace

Call allreduce(std::string name, TensorRef input, TensorRef output, ReduceOp reduce) {
  return {.op = OpKind::kAllreduce,
          .name = std::move(name),
          .tensors = {{std::move(input), output.data}},
          .reduce = reduce};
}

Call allgather(std::string name, TensorRef input) {
  return {.op = OpKind::kAllgather, .name = std::move(name), .tensors = {{std::move(input)}}};
}

Call broadcast(std::string name, TensorRef input, TensorRef output, int root) {
  return {.op = OpKind::kBroadcast,
          .name = std::move(name),
          .tensors = {{std::move(input), output.data}},
          .root = root};
}

Call barrier(std::string name) {
  return {.op = OpKind::kBarrier, .name = std::move(name)};
}

Call alltoall(std::string name, TensorRef input, std::vector<std::int64_t> splits) {
  return {.op = OpKind::kAlltoall,
          .name = std::move(name),
          .tensors = {{std::move(input)}},
          .splits = std::move(splits)};
}

Call reducescatter(std::string name, TensorRef input, TensorRef output, ReduceOp reduce) {
  return {.op = OpKind::kReducescatter,
          .name = std::move(name),
          .tensors = {{std::move(input), output.data}},
          .reduce = reduce};
}

Call join() {
  return {.op = OpKind::kJoin, .place = {fake_cuda::fake_cuda_current_device(), 0}};
}

Call add_process_set(std::vector<int> ranks) {
  return {.op = OpKind::kAddProcessSet, .ranks = std::move(ranks)};
}

Call remove_process_set(std::vector<int> ranks) {
  return {.op = OpKind::kRemoveProcessSet, .ranks = std::move(ranks)};
}

Call on(std::int32_t process_set, Call call) {
  call.process_set = process_set;
  return call;
}

Call allreduce(std::string name, TensorRef tensor, ReduceOp reduce) {
  return allreduce(std::move(name), tensor, tensor, reduce);
}

Call broadcast(std::string name, TensorRef tensor, int root) {
  return broadcast(std::move(name), tensor, tensor, root);
}

std::string error_of(Session& session, const HandlePtr& handle) {
  await(session, handle);
  return handle->error() == nullptr ? "" : handle->error()->what();
}

void wait(Session& session, const HandlePtr& handle) {
  await(session, handle);
  if (handle->error() != nullptr) throw *handle->error();
}

std::int32_t add_set(Session& session, std::vector<int> ranks) {
  return static_cast<std::int32_t>(run(session, add_process_set(std::move(ranks)))->value());
}

HandlePtr run(Session& session, Call call) {
  HandlePtr handle = session.submit(std::move(call));
  wait(session, handle);
  return handle;
}

std::optional<Error> failure_of(Session& session, Call call) {
  try {
    run(session, std::move(call));
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

std::string error_of(Session& session, Call call) {
  const std::optional<Error> failure = failure_of(session, std::move(call));
  return failure ? failure->what() : "";
}

Refusal refusal_of(Session& session, Call call) {
  try {
    static_cast<void>(session.submit(std::move(call)));
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  throw std::runtime_error("the call was accepted");
}

}  // namespace hora::testing
