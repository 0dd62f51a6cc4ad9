#pragma once

// What the stand-in knows. The driver's interface has no object that everything belongs to, hence the one
// State of the process; it is never destroyed, because threads of the driver outlive `main`.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/driver_api.h"
#include "stand_ins/cuda/device_memory.h"
#include "stand_ins/cuda/handles.h"
#include "stand_ins/cuda/kernels.h"
#include "stand_ins/fake_cuda.h"

namespace hora::fake_cuda {

using cuda::Result;

struct StreamState;

/// A place in a stream: reached when so many pieces of work are complete.
struct Point {
  std::shared_ptr<StreamState> stream;
  std::uint64_t ordinal = 0;

  [[nodiscard]] bool reached() const;
};

/// Runs on a thread of the driver, without the lock. Says whether it is complete; otherwise it is called
/// again.
using Run = std::function<bool()>;

/// One piece of a stream's work.
struct Piece {
  Run run = {};                             ///< empty: nothing to do, a place only
  std::vector<Point> after = {};            ///< it begins when all are reached
  std::uint64_t Counts::* count = nullptr;  ///< goes up when it is complete
  std::chrono::microseconds delay{0};
  std::uint64_t priority = 0;  ///< for the scheduler
};

struct ContextState {
  int device;
  cuda::Context handle = nullptr;
  std::shared_ptr<StreamState> default_stream = {};
  std::uint64_t streams_made = 0;
};

/// A sequence of work that records instead of running, in mode kGlobal.
struct Capture {
  std::thread::id thread;  ///< that began it
  bool invalidated = false;
};

struct StreamState {
  std::shared_ptr<ContextState> context;
  std::uint64_t number = 0;  ///< among the context's
  bool blocking = true;      ///< orders against the default stream
  bool is_default = false;
  bool scheduled = false;  ///< run by the scheduler's thread, otherwise by its own
  bool running = false;    ///< the first piece of the queue is called just now
  bool destroyed = false;  ///< ends when the queue is empty
  std::deque<Piece> queue;
  std::uint64_t submitted = 0;
  std::uint64_t completed = 0;
  std::optional<Capture> capture;
  std::condition_variable changed;  ///< for its own thread
};

inline bool Point::reached() const {
  return stream->completed >= ordinal;
}

struct EventState {
  std::shared_ptr<ContextState> context;
  std::optional<Point> last = {};  ///< the most recent record
  bool captured = false;           ///< which was in a capturing stream
};

struct ModuleState {
  std::shared_ptr<ContextState> context;
};

struct FunctionState {
  std::shared_ptr<ModuleState> module;
  KernelEntry kernel;
};

struct Device {
  Result error = Result::kSuccess;  ///< sticky
  std::unique_ptr<DeviceMemory> memory;
  std::shared_ptr<ContextState> context;  ///< null while nobody retains it
  int retained = 0;
};

/// Lock map: mutex guards all that follows, and all that it leads to, except a Piece's `run` while its stream
/// is `running`.
struct State {
  std::mutex mutex;
  bool initialised = false;
  Options options;
  int version = 0;
  bool same_pci = false;
  Counts counts{};
  int failing_allocations = 0;
  std::vector<Device> devices;
  Handles<cuda::Context, ContextState> contexts{0xc0c};
  Handles<cuda::Stream, StreamState> streams{0x57e};
  Handles<cuda::Event, EventState> events{0xe5e};
  Handles<cuda::Module, ModuleState> modules{0x30d};
  Handles<cuda::Function, FunctionState> functions{0xf0c};
  std::vector<std::shared_ptr<StreamState>> living;  ///< streams; also destroyed ones with work left
  std::map<std::string, KernelEntry> kernels;
  std::condition_variable progress;  ///< for calls that wait: some work is complete, or a device has failed
  std::condition_variable work;      ///< for the scheduler's thread
  bool scheduler_runs = false;
};

/// Made at the first call, with what the environment says.
State& the_state();

inline Device& device_of(State& state, const ContextState& context) {
  return state.devices[static_cast<std::size_t>(context.device)];
}

}  // namespace hora::fake_cuda
