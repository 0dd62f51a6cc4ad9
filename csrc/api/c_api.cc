#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/default_session.h"
#include "api/hora.h"
#include "base/error.h"
#include "ops/table.h"

struct hora_handle {
  std::shared_ptr<hora::Session> session;
  hora::HandlePtr handle;
  std::atomic<bool> is_name_free = false;

  /// Once only: the name may by now be that of another call.
  void free_name() {
    if (!is_name_free.exchange(true)) session->release(*handle);
  }
};

namespace hora {
namespace {

constexpr bool same(int number, auto value) {
  return number == static_cast<int>(value);
}
static_assert(kDTypes.size() == 10 && same(HORA_BOOL, DType::kBool) && same(HORA_UINT8, DType::kUInt8) &&
              same(HORA_INT8, DType::kInt8) && same(HORA_INT16, DType::kInt16) &&
              same(HORA_INT32, DType::kInt32) && same(HORA_INT64, DType::kInt64) &&
              same(HORA_FLOAT16, DType::kFloat16) && same(HORA_BFLOAT16, DType::kBFloat16) &&
              same(HORA_FLOAT32, DType::kFloat32) && same(HORA_FLOAT64, DType::kFloat64));
static_assert(kReduceOpNames.size() == 6 && same(HORA_AVERAGE, ReduceOp::kAverage) &&
              same(HORA_SUM, ReduceOp::kSum) && same(HORA_ADASUM, ReduceOp::kAdasum) &&
              same(HORA_MIN, ReduceOp::kMin) && same(HORA_MAX, ReduceOp::kMax) &&
              same(HORA_PRODUCT, ReduceOp::kProduct));
static_assert(same(HORA_HOST, DeviceKind::kHost) && HORA_GLOBAL_SET == kGlobalSet);

/// Neither allocates nor is destroyed, so that it works at any time in a thread's life. Longer texts are cut.
thread_local std::array<char, 4096> last_error{};

int status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return HORA_INVALID_ARGUMENT;
    case ErrorKind::kMismatch:
      return HORA_MISMATCH;
    case ErrorKind::kNotInitialized:
      return HORA_NOT_INITIALIZED;
    case ErrorKind::kStartup:
      return HORA_STARTUP_FAILED;
    case ErrorKind::kSessionFailed:
      return HORA_SESSION_FAILED;
  }
  return HORA_INTERNAL_ERROR;
}

int fail(int status, std::string_view text) {
  last_error[text.copy(last_error.data(), last_error.size() - 1)] = '\0';
  return status;
}

/// Runs what returns a status; an exception becomes one.
template <typename Body>
int guarded(Body body) noexcept {
  try {
    return body();
  } catch (const Error& error) {
    return fail(status_of(error.kind()), error.what());
  } catch (const std::exception& error) {
    return fail(HORA_INTERNAL_ERROR, error.what());
  }
}

void require(bool holds, const char* otherwise) {
  if (!holds) raise(ErrorKind::kInvalidArgument, "{}", otherwise);
}

template <auto Member>
int of_topology() {
  int number = -1;
  guarded([&] {
    number = (default_session()->topology().*Member)();
    return HORA_OK;
  });
  return number;
}

/// What a caller passes is checked as far as the core relies on it.
CallTensor to_tensor(const hora_tensor& tensor, bool allocates) {
  require(tensor.dtype >= 0 && tensor.dtype < static_cast<int>(kDTypes.size()),
          "a tensor's dtype is unknown");
  require(tensor.device == HORA_HOST, "a tensor's device is not HORA_HOST");
  require(tensor.reserved == 0, "a tensor's reserved field is not 0");
  require(tensor.ndim >= 0, "a tensor's ndim is negative");
  require(tensor.ndim == 0 || tensor.shape != nullptr, "a tensor's shape is NULL");
  Shape shape(tensor.shape, tensor.shape + tensor.ndim);
  require(std::ranges::none_of(shape, [](std::int64_t extent) { return extent < 0; }),
          "a tensor's shape has a negative extent");
  auto* const input = static_cast<std::byte*>(const_cast<void*>(tensor.input));
  auto* const output = static_cast<std::byte*>(tensor.output);
  CallTensor made{{input, std::move(shape), static_cast<DType>(tensor.dtype), DeviceKind::kHost}, output};
  const bool is_empty = made.input.count() == 0;
  require(is_empty || input != nullptr, "a tensor's input is NULL");
  require(is_empty || allocates || output != nullptr, "a tensor's output is NULL");
  if (allocates) made.output = nullptr;
  return made;
}

void add_tensors(Call& call, const hora_tensor* tensors, std::int64_t count) {
  require(tensors != nullptr && count > 0, "a call needs at least one tensor");
  const bool allocates = op_spec(call.op).ragged_first;
  for (std::int64_t tensor = 0; tensor < count; ++tensor)
    call.tensors.push_back(to_tensor(tensors[tensor], allocates));
}

void set_reduction(Call& call, std::int32_t reduce_op, double prescale, double postscale) {
  require(reduce_op >= 0 && reduce_op < static_cast<int>(kReduceOpNames.size()), "reduce_op is unknown");
  call.reduce = static_cast<ReduceOp>(reduce_op);
  call.prescale = prescale;
  call.postscale = postscale;
}

/// Starts a call that `fill` completes. One that cannot be converted is refused, so that its peers get an
/// error and do not wait; Session::submit does the same for what it finds wrong.
template <typename Fill>
int start(OpKind op, const char* name, std::int32_t process_set, hora_handle** handle, Fill fill) {
  return guarded([&] {
    auto made = std::make_unique<hora_handle>();
    made->session = default_session();
    Session& session = *made->session;
    Call call;
    call.op = op;
    call.process_set = process_set;
    if (name != nullptr) call.name = name;
    try {
      require(handle != nullptr, "handle is NULL");
      fill(call);
    } catch (const Error& error) {
      session.refuse(op, call.name, process_set, error.what());
      const std::string tensor = call.name.empty() ? "" : " '" + call.name + "'";
      throw Error(error.kind(),
                  fmt::format("{}{}: {}", kOpNames[static_cast<std::size_t>(op)], tensor, error.what()));
    }
    made->handle = session.submit(std::move(call));
    *handle = made.release();
    return HORA_OK;
  });
}

TimePoint deadline_after(double seconds) {
  constexpr double kForever = 1e9;  // s; a deadline that the clock can still express
  if (!(seconds > 0)) return Clock::now();
  return Clock::now() +
         std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::min(seconds, kForever)));
}

/// Throws the error of a failed operation.
const Handle& finished(const hora_handle* handle) {
  require(handle != nullptr, "handle is NULL");
  require(handle->handle->done(), "the operation is not complete; wait for it first");
  if (handle->handle->error() != nullptr) throw *handle->handle->error();
  return *handle->handle;
}

hora_output to_output(const Output& output) {
  return {.data = output.data.get(),
          .shape = output.shape.data(),
          .rows = output.sizes.data(),
          .members = std::ssize(output.sizes),
          .ndim = static_cast<std::int32_t>(output.shape.size()),
          .dtype = static_cast<std::int32_t>(output.dtype)};
}

}  // namespace
}  // namespace hora

using namespace hora;

int hora_abi_version(void) {
  return HORA_ABI_VERSION;
}

const char* hora_last_error(void) {
  return last_error.data();
}

int hora_init(void) {
  return guarded([] {
    init_default_session();
    return HORA_OK;
  });
}

int hora_shutdown(void) {
  return guarded([] {
    shutdown_default_session();
    return HORA_OK;
  });
}

int hora_is_initialized(void) {
  return has_default_session() ? 1 : 0;
}

int hora_rank(void) {
  return of_topology<&Topology::rank>();
}
int hora_size(void) {
  return of_topology<&Topology::size>();
}
int hora_local_rank(void) {
  return of_topology<&Topology::local_rank>();
}
int hora_local_size(void) {
  return of_topology<&Topology::local_size>();
}
int hora_cross_rank(void) {
  return of_topology<&Topology::cross_rank>();
}
int hora_cross_size(void) {
  return of_topology<&Topology::cross_size>();
}

int hora_allreduce_async(const hora_tensor* tensors, int64_t count, int32_t reduce_op, double prescale,
                         double postscale, const char* name, int32_t process_set, hora_handle** handle) {
  return start(OpKind::kAllreduce, name, process_set, handle, [&](Call& call) {
    add_tensors(call, tensors, count);
    set_reduction(call, reduce_op, prescale, postscale);
  });
}

int hora_allgather_async(const hora_tensor* tensors, int64_t count, const char* name, int32_t process_set,
                         hora_handle** handle) {
  return start(OpKind::kAllgather, name, process_set, handle,
               [&](Call& call) { add_tensors(call, tensors, count); });
}

int hora_broadcast_async(const hora_tensor* tensors, int64_t count, int32_t root, const char* name,
                         int32_t process_set, hora_handle** handle) {
  return start(OpKind::kBroadcast, name, process_set, handle, [&](Call& call) {
    add_tensors(call, tensors, count);
    call.root = root;
  });
}

int hora_alltoall_async(const hora_tensor* tensor, const int64_t* splits, int64_t split_count,
                        const char* name, int32_t process_set, hora_handle** handle) {
  return start(OpKind::kAlltoall, name, process_set, handle, [&](Call& call) {
    require(splits != nullptr && split_count >= 0, "splits is NULL or its length negative");
    add_tensors(call, tensor, 1);
    call.splits.assign(splits, splits + split_count);
  });
}

int hora_reducescatter_async(const hora_tensor* tensors, int64_t count, int32_t reduce_op, double prescale,
                             double postscale, const char* name, int32_t process_set, hora_handle** handle) {
  return start(OpKind::kReducescatter, name, process_set, handle, [&](Call& call) {
    add_tensors(call, tensors, count);
    set_reduction(call, reduce_op, prescale, postscale);
  });
}

int hora_barrier_async(int32_t process_set, hora_handle** handle) {
  return start(OpKind::kBarrier, nullptr, process_set, handle, [](Call&) {});
}

int hora_join_async(hora_handle** handle) {
  return start(OpKind::kJoin, nullptr, kGlobalSet, handle, [](Call&) {});
}

int hora_add_process_set_async(const int32_t* ranks, int64_t count, hora_handle** handle) {
  return start(OpKind::kAddProcessSet, nullptr, kGlobalSet, handle, [&](Call& call) {
    require(ranks != nullptr && count > 0, "a process set needs at least one rank");
    call.ranks.assign(ranks, ranks + count);
    require(std::ranges::adjacent_find(call.ranks, std::greater_equal<>()) == call.ranks.end(),
            "the ranks of a process set must be ascending, each once");
  });
}

int hora_remove_process_set_async(int32_t process_set, hora_handle** handle) {
  return start(OpKind::kRemoveProcessSet, nullptr, kGlobalSet, handle,
               [&](Call& call) { call.ranks = default_session()->process_set(process_set); });
}

int hora_poll(hora_handle* handle, int* complete) {
  return guarded([&] {
    require(handle != nullptr && complete != nullptr, "handle or complete is NULL");
    *complete = handle->handle->done() ? 1 : 0;
    if (*complete) handle->free_name();
    return HORA_OK;
  });
}

int hora_wait(hora_handle* handle, double timeout_seconds) {
  return guarded([&]() -> int {
    require(handle != nullptr, "handle is NULL");
    if (!handle->session->wait_until(*handle->handle, deadline_after(timeout_seconds))) {
      return fail(HORA_TIMEOUT, "the operation is not complete yet");
    }
    handle->free_name();
    static_cast<void>(finished(handle));
    return HORA_OK;
  });
}

int hora_get_output(const hora_handle* handle, int64_t tensor, hora_output* output) {
  return guarded([&] {
    require(output != nullptr, "output is NULL");
    const std::vector<Output>& outputs = finished(handle).outputs();
    require(tensor >= 0 && tensor < std::ssize(outputs), "this operation has no such output of its own");
    *output = to_output(outputs[static_cast<std::size_t>(tensor)]);
    return HORA_OK;
  });
}

int hora_get_value(const hora_handle* handle, int64_t* value) {
  return guarded([&] {
    require(value != nullptr, "value is NULL");
    *value = finished(handle).value();
    return HORA_OK;
  });
}

int hora_release(hora_handle* handle) {
  return guarded([&] {
    if (handle == nullptr) return HORA_OK;
    require(handle->handle->done(), "the operation is still under way; wait for it first");
    handle->free_name();
    delete handle;
    return HORA_OK;
  });
}
