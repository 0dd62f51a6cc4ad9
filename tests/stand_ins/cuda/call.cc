#include "stand_ins/cuda/call.h"

#include <cstdio>

#include "stand_ins/cuda/work.h"

namespace hora::fake_cuda {
namespace {

/// CU_STREAM_LEGACY, the default stream by its other name.
constexpr std::uintptr_t kLegacyStream = 1;

void require_device_works(State& state, const ContextState& context) {
  const Result error = device_of(state, context).error;
  require(error == Result::kSuccess, error);
}

std::shared_ptr<StreamState> default_stream(State& state, const std::shared_ptr<ContextState>& context) {
  if (!context->default_stream) {
    context->default_stream = make_stream(state, context);
    context->default_stream->is_default = true;
  }
  return context->default_stream;
}

}  // namespace

ThreadState& this_thread() {
  thread_local ThreadState state;
  return state;
}

Result refuse_host_function() {
  std::fputs("fake CUDA: CUDA call from a host function\n", stderr);
  State& state = the_state();
  const Lock lock(state.mutex);
  ++state.counts.calls_from_host_functions;
  return Result::kUnknown;
}

std::shared_ptr<ContextState> find_current_context(const State& state) {
  const auto& contexts = this_thread().contexts;
  return contexts.empty() ? nullptr : state.contexts.find(contexts.back());
}

std::shared_ptr<ContextState> current_context(State& state) {
  auto context = find_current_context(state);
  require(context != nullptr, Result::kInvalidContext);
  require_device_works(state, *context);
  return context;
}

std::shared_ptr<StreamState> find_stream(State& state, cuda::Stream stream) {
  if (!stream || reinterpret_cast<std::uintptr_t>(stream) == kLegacyStream) {
    return default_stream(state, current_context(state));
  }
  auto found = state.streams.find(stream);
  require(found != nullptr, Result::kInvalidHandle);
  require_device_works(state, *found->context);
  return found;
}

std::shared_ptr<StreamState> find_stream_for_work(State& state, cuda::Stream stream) {
  const auto context = current_context(state);
  auto found = find_stream(state, stream);
  require(found->context == context, Result::kInvalidHandle);
  return found;
}

std::shared_ptr<EventState> find_event(State& state, cuda::Event event) {
  auto found = state.events.find(event);
  require(found != nullptr, Result::kInvalidHandle);
  require_device_works(state, *found->context);
  return found;
}

}  // namespace hora::fake_cuda
