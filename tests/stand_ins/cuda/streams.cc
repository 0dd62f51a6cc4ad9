// Streams as their users see them; work.cc runs what is put on them.

#include "stand_ins/cuda/captures.h"
#include "stand_ins/cuda/symbols.h"
#include "stand_ins/cuda/work.h"

namespace hora::fake_cuda {

extern "C" {

Result cuStreamCreateWithPriority(cuda::Stream* stream, unsigned flags, int) {
  return call([&](State& state, Lock&) {
    require(stream != nullptr && flags <= cuda::kStreamNonBlocking, Result::kInvalidValue);
    const auto made = make_stream(state, current_context(state));
    made->blocking = (flags & cuda::kStreamNonBlocking) == 0;
    ++state.counts.streams_created;
    *stream = state.streams.add(made);
  });
}

/// Work that is left runs to its end.
Result cuStreamDestroy_v2(cuda::Stream stream) {
  return call([&](State& state, Lock&) {
    const auto removed = state.streams.remove(stream);
    require(removed != nullptr, Result::kInvalidHandle);
    end_stream(state, *removed);
    ++state.counts.streams_destroyed;
  });
}

Result cuStreamQuery(cuda::Stream stream) {
  return call([&](State& state, Lock&) {
    const auto found = find_stream(state, stream);
    if (found->capture) {
      found->capture->invalidated = true;
      throw Refusal{kStreamCaptureUnsupported};
    }
    require_no_capture_forbids(state);
    require_no_implicit_capture(state, *found);
    require(found->queue.empty(), Result::kNotReady);
  });
}

Result cuLaunchHostFunc(cuda::Stream stream, cuda::HostFunction function, void* data) {
  return call([&](State& state, Lock&) {
    require(function != nullptr, Result::kInvalidValue);
    const auto run = [=] {
      this_thread().in_host_function = true;
      function(data);
      this_thread().in_host_function = false;
      return true;
    };
    submit(state, find_stream_for_work(state, stream), {.run = run, .count = &Counts::host_functions});
  });
}

Result fake_cuda_enqueue(cuda::Stream stream, Work work, void* data) {
  return call([&](State& state, Lock&) {
    require(work != nullptr, Result::kInvalidValue);
    submit(state, find_stream_for_work(state, stream), {.run = [=] { return work(data); }});
  });
}
}

}  // namespace hora::fake_cuda
