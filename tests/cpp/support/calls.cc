#include "support/calls.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace hora::testing {
namespace {

constexpr std::chrono::seconds kFarTooLong{45};

void await(Session& session, const HandlePtr& handle) {
  if (!session.wait_until(*handle, Clock::now() + kFarTooLong))
    throw std::runtime_error(
        fmt::format("'{}' did not complete within {} s", handle->name(), kFarTooLong.count()));
  session.release(*handle);
}

}  // namespace

Call allreduce(std::string name, TensorRef input, TensorRef output, ReduceOp reduce) {
  return {.op = OpKind::kAllreduce,
          .name = std::move(name),
          .input = std::move(input),
          .output = std::move(output),
          .reduce = reduce};
}

Call allgather(std::string name, TensorRef input) {
  return {.op = OpKind::kAllgather, .name = std::move(name), .input = std::move(input), .output = {}};
}

Call broadcast(std::string name, TensorRef input, TensorRef output, int root) {
  return {.op = OpKind::kBroadcast,
          .name = std::move(name),
          .input = std::move(input),
          .output = std::move(output),
          .root = root};
}

Call barrier(std::string name) {
  return {.op = OpKind::kBarrier, .name = std::move(name), .input = {nullptr, {0}}, .output = {}};
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

HandlePtr run(Session& session, Call call) {
  HandlePtr handle = session.submit(std::move(call));
  wait(session, handle);
  return handle;
}

std::string error_of(Session& session, Call call) {
  try {
    run(session, std::move(call));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
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
