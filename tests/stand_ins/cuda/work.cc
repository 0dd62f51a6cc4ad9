#include "stand_ins/cuda/work.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "stand_ins/cuda/captures.h"

namespace hora::fake_cuda {
namespace {

/// Pieces that were not complete are called again after this time.
constexpr auto kRetry = std::chrono::microseconds(50);

bool can_run(const StreamState& stream) {
  return !stream.queue.empty() && std::ranges::all_of(stream.queue.front().after, &Point::reached);
}

bool has_ended(const StreamState& stream) {
  return stream.destroyed && stream.queue.empty();
}

void drop_queue(StreamState& stream) {
  stream.queue.clear();
  stream.completed = stream.submitted;
}

/// Wakes everybody for whom reached points matter.
void announce_progress(State& state) {
  for (const auto& stream : state.living) {
    if (!stream->scheduled) stream->changed.notify_one();
  }
  state.work.notify_one();
  state.progress.notify_all();
}

/// Calls the first piece once and says whether it is complete. New pieces may arrive behind it meanwhile, but
/// nobody removes it.
bool run_first(State& state, StreamState& stream, Lock& lock) {
  Piece& piece = stream.queue.front();
  const auto delay = std::exchange(piece.delay, {});
  stream.running = true;
  lock.unlock();
  if (delay.count() > 0) std::this_thread::sleep_for(delay);
  const bool complete = !piece.run || piece.run();
  lock.lock();
  stream.running = false;
  if (device_of(state, *stream.context).error != Result::kSuccess) {
    drop_queue(stream);
  } else if (complete) {
    if (piece.count) ++(state.counts.*piece.count);
    stream.queue.pop_front();
    ++stream.completed;
  } else {
    return false;
  }
  announce_progress(state);
  return true;
}

void run_stream(const std::shared_ptr<StreamState>& stream) {
  pthread_setname_np(pthread_self(), "fake-stream");
  State& state = the_state();
  Lock lock(state.mutex);
  for (;;) {
    stream->changed.wait(lock, [&] { return can_run(*stream) || has_ended(*stream); });
    if (has_ended(*stream)) break;
    if (!run_first(state, *stream, lock)) stream->changed.wait_for(lock, kRetry);
  }
  std::erase(state.living, stream);
  state.progress.notify_all();
}

using Streams = std::vector<std::shared_ptr<StreamState>>;

/// The stream whose first piece has the highest priority among those that can run and are not in `except`, or
/// null.
std::shared_ptr<StreamState> choose_scheduled_stream(const State& state, const Streams& except) {
  std::shared_ptr<StreamState> chosen;
  for (const auto& each : state.living) {
    if (!each->scheduled || !can_run(*each) || std::ranges::count(except, each) > 0) continue;
    if (!chosen || each->queue.front().priority > chosen->queue.front().priority) chosen = each;
  }
  return chosen;
}

void run_scheduled_streams() {
  pthread_setname_np(pthread_self(), "fake-scheduler");
  State& state = the_state();
  Lock lock(state.mutex);
  Streams in_vain;  // called since the last complete piece
  for (;;) {
    std::erase_if(state.living, [](const auto& each) { return each->scheduled && has_ended(*each); });
    if (const auto stream = choose_scheduled_stream(state, in_vain)) {
      if (run_first(state, *stream, lock)) {
        in_vain.clear();
      } else {
        in_vain.push_back(stream);
      }
    } else if (in_vain.empty()) {
      state.work.wait(lock);
    } else {
      state.work.wait_for(lock, kRetry);
      in_vain.clear();
    }
  }
}

void start_scheduler(State& state) {
  if (std::exchange(state.scheduler_runs, true)) return;
  std::thread(run_scheduled_streams).detach();
}

bool has_failed_and_stands_still(const State& state, int device) {
  return state.devices[static_cast<std::size_t>(device)].error != Result::kSuccess &&
         std::ranges::none_of(state.living, [&](const auto& each) {
           return each->running && each->context->device == device;
         });
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

std::uint64_t priority_of_next(std::uint64_t seed, const StreamState& stream) {
  const auto device = static_cast<std::uint64_t>(stream.context->device);
  return mix(mix(mix(mix(seed) + device) + stream.number) + stream.submitted);
}

/// The default stream waits for all blocking streams of its context, and they wait for it.
void order_with_default_stream(const State& state, const StreamState& stream, std::vector<Point>& after) {
  if (!stream.blocking) return;
  for (const auto& other : state.living) {
    const bool ordered = other->context == stream.context && other->blocking &&
                         other->is_default != stream.is_default && !other->queue.empty();
    if (ordered) after.push_back({other, other->submitted});
  }
}

}  // namespace

std::shared_ptr<StreamState> make_stream(State& state, const std::shared_ptr<ContextState>& context) {
  auto stream = std::make_shared<StreamState>();
  stream->context = context;
  stream->number = ++context->streams_made;
  stream->scheduled = state.options.seed != 0;
  state.living.push_back(stream);
  if (stream->scheduled) {
    start_scheduler(state);
  } else {
    std::thread(run_stream, stream).detach();
  }
  return stream;
}

Point submit(State& state, const std::shared_ptr<StreamState>& stream, Piece piece) {
  require_no_implicit_capture(state, *stream);
  if (stream->capture) {
    require(!stream->capture->invalidated, kStreamCaptureInvalidated);
    return {stream, stream->submitted};
  }
  order_with_default_stream(state, *stream, piece.after);
  std::erase_if(piece.after, &Point::reached);
  piece.priority = priority_of_next(state.options.seed, *stream);
  piece.delay = std::chrono::microseconds(state.options.delay_us);
  stream->queue.push_back(std::move(piece));
  ++stream->submitted;
  if (stream->scheduled) {
    state.work.notify_one();
  } else {
    stream->changed.notify_one();
  }
  return {stream, stream->submitted};
}

void drop_work(State& state, int device) {
  for (const auto& stream : state.living) {
    if (stream->context->device == device && !stream->running) drop_queue(*stream);
  }
  announce_progress(state);
}

void end_stream(State& state, StreamState& stream) {
  stream.destroyed = true;
  stream.capture.reset();
  stream.changed.notify_one();
  state.work.notify_one();
}

std::vector<Point> points_of_device(const State& state, int device) {
  std::vector<Point> points;
  for (const auto& stream : state.living) {
    if (stream->context->device == device && !stream->queue.empty()) {
      points.push_back({stream, stream->submitted});
    }
  }
  return points;
}

void synchronize(State& state, Lock& lock, int device, const std::vector<Point>& points) {
  ++state.counts.synchronizations;
  state.progress.wait(lock, [&] {
    return std::ranges::all_of(points, &Point::reached) || has_failed_and_stands_still(state, device);
  });
}

}  // namespace hora::fake_cuda
