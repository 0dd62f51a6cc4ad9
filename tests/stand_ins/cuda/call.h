#pragma once

// How every function of the driver begins: with the lock, and with what its handles stand for.

#include <memory>
#include <mutex>
#include <vector>

#include "stand_ins/cuda/state.h"

namespace hora::fake_cuda {

/// Ends a call with this result.
struct Refusal {
  Result result;
};

inline void require(bool holds, Result otherwise) {
  if (!holds) throw Refusal{otherwise};
}

/// What the driver keeps for each thread.
struct ThreadState {
  std::vector<cuda::Context> contexts;  ///< the last one is current
  cuda::CaptureMode capture_mode = cuda::CaptureMode::kGlobal;
  bool in_host_function = false;
};

ThreadState& this_thread();

/// Host functions must not call the driver: says so on the standard error output.
Result refuse_host_function();

using Lock = std::unique_lock<std::mutex>;

/// Runs body(state, lock) as a call of the driver.
template <class Body>
Result call(Body body) {
  if (this_thread().in_host_function) return refuse_host_function();
  State& state = the_state();
  Lock lock(state.mutex);
  if (!state.initialised) return Result::kNotInitialized;
  try {
    body(state, lock);
    return Result::kSuccess;
  } catch (const Refusal& refusal) {
    return refusal.result;
  }
}

/// The context that is current on this thread, or null.
std::shared_ptr<ContextState> find_current_context(const State& state);

/// Refuses without a current context, and after its device has failed.
std::shared_ptr<ContextState> current_context(State& state);

/// Null is the default stream of the current context. Refuses what is no stream, and one of a device that has
/// failed.
std::shared_ptr<StreamState> find_stream(State& state, cuda::Stream stream);

/// A stream that work of the calling thread may be put on: one of its current context.
std::shared_ptr<StreamState> find_stream_for_work(State& state, cuda::Stream stream);

std::shared_ptr<EventState> find_event(State& state, cuda::Event event);

}  // namespace hora::fake_cuda
