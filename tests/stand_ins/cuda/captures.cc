#include "stand_ins/cuda/captures.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "stand_ins/cuda/symbols.h"

namespace hora::fake_cuda {
namespace {

cuda::CaptureStatus status_of(const StreamState& stream) {
  if (!stream.capture) return cuda::CaptureStatus::kNone;
  return stream.capture->invalidated ? cuda::CaptureStatus::kInvalidated : cuda::CaptureStatus::kActive;
}

void begin_capture(StreamState& stream) {
  require(!stream.is_default, kStreamCaptureUnsupported);
  require(!stream.capture, Result::kInvalidValue);
  stream.capture = Capture{.thread = std::this_thread::get_id()};
}

void end_capture(StreamState& stream) {
  require(stream.capture.has_value(), Result::kInvalidValue);
  const Capture ended = *std::exchange(stream.capture, std::nullopt);
  require(!ended.invalidated, kStreamCaptureInvalidated);
}

}  // namespace

void require_no_capture_forbids(State& state) {
  const auto mode = this_thread().capture_mode;
  if (mode == cuda::CaptureMode::kRelaxed) return;
  bool forbidden = false;
  for (const auto& stream : state.living) {
    if (!stream->capture) continue;
    if (mode == cuda::CaptureMode::kThreadLocal && stream->capture->thread != std::this_thread::get_id()) {
      continue;
    }
    stream->capture->invalidated = true;
    forbidden = true;
  }
  require(!forbidden, kStreamCaptureUnsupported);
}

void require_no_implicit_capture(const State& state, const StreamState& stream) {
  if (!stream.is_default) return;
  const bool captures = std::ranges::any_of(state.living, [&](const auto& other) {
    return other->capture && other->blocking && other->context == stream.context;
  });
  require(!captures, kStreamCaptureImplicit);
}

extern "C" {

Result cuThreadExchangeStreamCaptureMode(cuda::CaptureMode* mode) {
  return call([&](State&, Lock&) {
    require(mode != nullptr && static_cast<unsigned>(*mode) <= 2, Result::kInvalidValue);
    std::swap(*mode, this_thread().capture_mode);
  });
}

Result cuStreamIsCapturing(cuda::Stream stream, cuda::CaptureStatus* status) {
  return call([&](State& state, Lock&) {
    require(status != nullptr, Result::kInvalidValue);
    const auto found = find_stream(state, stream);
    require_no_implicit_capture(state, *found);
    *status = status_of(*found);
  });
}

Result fake_cuda_set_capturing(cuda::Stream stream, bool capturing) {
  return call([&](State& state, Lock&) {
    const auto found = find_stream(state, stream);
    if (capturing) {
      begin_capture(*found);
    } else {
      end_capture(*found);
    }
  });
}
}

}  // namespace hora::fake_cuda
