#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "api/session.h"
#include "base/half.h"

namespace hora::testing {

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::kUInt8;
  if constexpr (std::is_same_v<T, std::int8_t>) return DType::kInt8;
  if constexpr (std::is_same_v<T, std::int16_t>) return DType::kInt16;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::kInt32;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::kInt64;
  if constexpr (std::is_same_v<T, Float16>) return DType::kFloat16;
  if constexpr (std::is_same_v<T, BFloat16>) return DType::kBFloat16;
  if constexpr (std::is_same_v<T, float>) return DType::kFloat32;
  if constexpr (std::is_same_v<T, double>) return DType::kFloat64;
}

/// A vector as a tensor; it must outlive the call.
template <typename T>
[[nodiscard]] TensorRef ref(std::vector<T>& values, Shape shape) {
  return {reinterpret_cast<std::byte*>(values.data()), std::move(shape), dtype_of<T>(), DeviceKind::kHost};
}

template <typename T>
[[nodiscard]] TensorRef ref(std::vector<T>& values) {
  return ref(values, {static_cast<std::int64_t>(values.size())});
}

[[nodiscard]] Call allreduce(std::string name, TensorRef input, TensorRef output,
                             ReduceOp reduce = ReduceOp::kSum);
[[nodiscard]] Call allgather(std::string name, TensorRef input);
[[nodiscard]] Call broadcast(std::string name, TensorRef input, TensorRef output, int root);
[[nodiscard]] Call barrier(std::string name = "");
[[nodiscard]] Call alltoall(std::string name, TensorRef input, std::vector<std::int64_t> splits);
[[nodiscard]] Call reducescatter(std::string name, TensorRef input, TensorRef output,
                                 ReduceOp reduce = ReduceOp::kSum);
[[nodiscard]] Call join();
[[nodiscard]] Call add_process_set(std::vector<int> ranks);
[[nodiscard]] Call remove_process_set(std::vector<int> ranks);

/// The call, made among the members of a process set.
[[nodiscard]] Call on(std::int32_t process_set, Call call);

/// In place.
[[nodiscard]] Call allreduce(std::string name, TensorRef tensor, ReduceOp reduce = ReduceOp::kSum);
[[nodiscard]] Call broadcast(std::string name, TensorRef tensor, int root);

/// Blocks until the operation is complete and frees its name; the error it failed with, or "". A handle that
/// takes longer than any test may is an error too.
[[nodiscard]] std::string error_of(Session& session, const HandlePtr& handle);

/// The same, but throws the error.
void wait(Session& session, const HandlePtr& handle);

/// Submits and waits; throws what goes wrong.
HandlePtr run(Session& session, Call call);

/// Adds a process set and waits; its id.
[[nodiscard]] std::int32_t add_set(Session& session, std::vector<int> ranks);

/// Submits and waits; what went wrong, at either.
[[nodiscard]] std::optional<Error> failure_of(Session& session, Call call);

/// The same; its text, or "".
[[nodiscard]] std::string error_of(Session& session, Call call);

/// Submits a call that has to be refused at once; the kind and text of the refusal.
struct Refusal {
  ErrorKind kind;
  std::string text;
};
[[nodiscard]] Refusal refusal_of(Session& session, Call call);

}  // namespace hora::testing
