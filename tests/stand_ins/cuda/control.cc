// What tests ask of the stand-in as a whole.

#include <algorithm>
#include <chrono>

#include "stand_ins/cuda/work.h"

namespace hora::fake_cuda {
namespace {

bool is_idle(const State& state) {
  return std::ranges::all_of(state.living, [](const auto& each) { return each->queue.empty(); });
}

}  // namespace

extern "C" {

Counts fake_cuda_counts() {
  State& state = the_state();
  const Lock lock(state.mutex);
  Counts counts = state.counts;
  for (const Device& device : state.devices) {
    if (device.memory) counts.live_bytes += device.memory->live_bytes();
  }
  return counts;
}

void fake_cuda_set_options(const Options* options) {
  State& state = the_state();
  const Lock lock(state.mutex);
  state.options = *options;
}

int fake_cuda_current_device() {
  State& state = the_state();
  const Lock lock(state.mutex);
  const auto context = find_current_context(state);
  return context ? context->device : -1;
}

bool fake_cuda_is_stream_of(cuda::Stream stream, int device) {
  State& state = the_state();
  const Lock lock(state.mutex);
  const auto found = state.streams.find(stream);
  const auto context = stream ? (found ? found->context : nullptr) : find_current_context(state);
  return context && context->device == device;
}

void fake_cuda_break_device(int device, Result error) {
  State& state = the_state();
  const Lock lock(state.mutex);
  state.devices.at(static_cast<std::size_t>(device)).error = error;
  if (error != Result::kSuccess) drop_work(state, device);
}

void fake_cuda_fail_allocations(int count) {
  State& state = the_state();
  const Lock lock(state.mutex);
  state.failing_allocations = count;
}

bool fake_cuda_drain(int timeout_ms) {
  State& state = the_state();
  Lock lock(state.mutex);
  return state.progress.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return is_idle(state); });
}
}

}  // namespace hora::fake_cuda
