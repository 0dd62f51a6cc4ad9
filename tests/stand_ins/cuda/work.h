#pragma once

// How streams do their work. A stream's queue holds pieces that run one after the other, each of them when
// the points it comes after are reached. The thread that runs a piece is the stream's own; or, for streams
// made with a seed, the scheduler's, which runs one piece at a time: of those that can run, the one with the
// highest priority. Priorities are a hash of the seed and the place of the piece, so the order of pieces that
// can run at the same time depends on the seed alone, not on how often others were called in vain. All
// functions want the state's lock held.

#include <memory>
#include <vector>

#include "stand_ins/cuda/call.h"
#include "stand_ins/cuda/state.h"

namespace hora::fake_cuda {

std::shared_ptr<StreamState> make_stream(State& state, const std::shared_ptr<ContextState>& context);

/// Appends a piece and returns the point behind it. A capturing stream takes the piece for its graph, which
/// nobody runs.
Point submit(State& state, const std::shared_ptr<StreamState>& stream, Piece piece);

/// Drops all work of the device's streams; what runs just now is dropped when it returns.
void drop_work(State& state, int device);

/// The stream ends when its work is done.
void end_stream(State& state, StreamState& stream);

/// The points that all work of the device submitted so far leads to, without those reached.
std::vector<Point> points_of_device(const State& state, int device);

/// Blocks, without the lock, until all points are reached, or the device has failed and runs nothing any
/// more.
void synchronize(State& state, Lock& lock, int device, const std::vector<Point>& points);

}  // namespace hora::fake_cuda
