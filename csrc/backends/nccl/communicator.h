#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backends/cuda/device.h"
#include "backends/nccl/nccl_api.h"
#include "base/clock.h"
#include "base/stragglers.h"

namespace hora::nccl {

/// What runs again and again while NCCL is at a call.
using Meanwhile = std::function<void()>;

struct CommunicatorOptions {
  Duration limit;                          ///< for NCCL to get through with a call
  bool is_blocking = false;                ///< NCCL itself waits instead, for comparison
  std::shared_ptr<Stragglers> stragglers;  ///< for aborting
  Duration abort_limit;                    ///< for NCCL to get through with that
};

/// One process set's NCCL communicator, made and used by the engine's thread alone. It is non-blocking: NCCL
/// works on a call in a thread of its own, and until it is through nothing else may be asked of the
/// communicator, nor an event recorded behind the call.
class Communicator {
 public:
  /// Collective over the ranks of the set, all with the same id. Throws Error(kSessionFailed).
  Communicator(std::shared_ptr<const Nccl> nccl, std::shared_ptr<cuda::Device> device, const UniqueId& id,
               int rank, int size, const CommunicatorOptions& options, const Meanwhile& meanwhile);
  /// `finish` or `abort` was called before, else what NCCL holds is left behind.
  ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] Comm get() const { return comm_; }

  /// Takes the result of a call and waits until NCCL is through with it.
  void settle(Result result, const char* what, const Meanwhile& meanwhile) const;
  /// Takes the result of a call within a group, with which NCCL is through at the group's end.
  void expect(Result result, const char* what) const;

  /// Throws Error(kSessionFailed) when something went wrong since the last call, such as the loss of a peer.
  void check_state() const;

  /// Gives everything back; all ranks of the set do so. Nothing is under way.
  void finish(const Meanwhile& meanwhile);

  /// Ends what is under way and gives up the communicator. It may block, so it has a thread of its own, which
  /// lets go of `needs` in the end.
  void abort(std::shared_ptr<void> needs = nullptr);

 private:
  [[noreturn]] void fail(Result result, const char* what) const;

  const std::shared_ptr<const Nccl> nccl_;
  const std::shared_ptr<cuda::Device> device_;
  const CommunicatorOptions options_;
  Comm comm_ = nullptr;
};

}  // namespace hora::nccl
