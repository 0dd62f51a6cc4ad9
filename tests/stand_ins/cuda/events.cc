// Events: each names the point of its most recent record. Whoever waits takes a copy of that point, so a
// record or the destruction that follows changes nothing for it.

#include "stand_ins/cuda/captures.h"
#include "stand_ins/cuda/symbols.h"
#include "stand_ins/cuda/work.h"

namespace hora::fake_cuda {
namespace {

constexpr unsigned kEventFlags = 7;

/// Its last record, or null if there was none. An event of a captured sequence stands for no work.
const Point* find_record(const EventState& event) {
  require(!event.captured, kCapturedEvent);
  return event.last ? &*event.last : nullptr;
}

/// Dependencies cannot cross the border of a capture; trying invalidates it.
void require_same_side_of_capture(StreamState& stream, const EventState& event) {
  const bool captures = stream.capture.has_value();
  if (captures == event.captured) return;
  if (captures) stream.capture->invalidated = true;
  throw Refusal{kStreamCaptureIsolation};
}

}  // namespace

extern "C" {

Result cuEventCreate(cuda::Event* event, unsigned flags) {
  return call([&](State& state, Lock&) {
    require(event != nullptr && flags <= kEventFlags, Result::kInvalidValue);
    *event = state.events.add(std::make_shared<EventState>(EventState{.context = current_context(state)}));
    ++state.counts.events_created;
  });
}

Result cuEventDestroy_v2(cuda::Event event) {
  return call([&](State& state, Lock&) {
    require(state.events.remove(event) != nullptr, Result::kInvalidHandle);
    ++state.counts.events_destroyed;
  });
}

Result cuEventRecord(cuda::Event event, cuda::Stream stream) {
  return call([&](State& state, Lock&) {
    current_context(state);
    const auto found = find_event(state, event);
    const auto on = find_stream(state, stream);
    require(found->context == on->context, Result::kInvalidHandle);
    found->last = submit(state, on, {});
    found->captured = on->capture.has_value();
  });
}

Result cuEventQuery(cuda::Event event) {
  return call([&](State& state, Lock&) {
    const auto found = find_event(state, event);
    require_no_capture_forbids(state);
    const Point* const record = find_record(*found);
    require(!record || record->reached(), Result::kNotReady);
  });
}

Result cuEventSynchronize(cuda::Event event) {
  return call([&](State& state, Lock& lock) {
    const auto found = find_event(state, event);
    require_no_capture_forbids(state);
    const Point* const record = find_record(*found);
    const int device = found->context->device;
    synchronize(state, lock, device, record ? std::vector{*record} : std::vector<Point>{});
    require(device_of(state, *found->context).error == Result::kSuccess,
            device_of(state, *found->context).error);
  });
}

Result cuStreamWaitEvent(cuda::Stream stream, cuda::Event event, unsigned flags) {
  return call([&](State& state, Lock&) {
    require(flags <= 1, Result::kInvalidValue);
    current_context(state);
    const auto found = find_event(state, event);
    const auto waiting = find_stream(state, stream);
    require_same_side_of_capture(*waiting, *found);
    if (found->last && !found->captured) submit(state, waiting, {.after = {*found->last}});
  });
}
}

}  // namespace hora::fake_cuda
