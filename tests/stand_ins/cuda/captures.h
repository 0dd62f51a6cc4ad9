#pragma once

// Stream capture as far as it restricts others. fake_cuda_set_capturing begins captures in mode kGlobal:
// until they end, calls that may synchronise are forbidden to all threads whose own mode is kGlobal, and
// invalidate the capture.

#include "stand_ins/cuda/call.h"

namespace hora::fake_cuda {

/// For calls that may synchronise.
void require_no_capture_forbids(State& state);

/// The default stream cannot be used while a blocking stream of its context captures.
void require_no_implicit_capture(const State& state, const StreamState& stream);

}  // namespace hora::fake_cuda
