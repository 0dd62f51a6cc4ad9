#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "core/handle.h"
#include "core/op.h"
#include "core/tensor_ref.h"
#include "core/topology.h"
#include "engine/counters.h"
#include "transport/transport.h"

namespace hora {

class Engine;

/// One tensor of a call.
struct CallTensor {
  TensorRef input;
  std::byte* output = nullptr;  ///< the input's memory for an operation in place; null where the op allocates
};

/// One collective call of one rank. All its tensors become ready together.
struct Call {
  OpKind op = OpKind::kAllreduce;
  std::string name;  ///< empty: paired with the other ranks' unnamed calls in order
  std::vector<CallTensor> tensors;
  ReduceOp reduce = ReduceOp::kSum;
  std::int64_t root = 0;
  double prescale = 1.0;
  double postscale = 1.0;
  std::int32_t process_set = kGlobalSet;
  std::vector<std::int64_t> splits;  ///< alltoall: rows of the input for each member of the set
  std::vector<int> ranks;            ///< the process set to add or to remove, ascending
  std::optional<DType> wire;         ///< allreduce: what floating-point numbers on a device travel as
  DevicePlace place;                 ///< of tensors on a device; join: of the device to go on with
  Caller caller;                     ///< for errors
};

/// One rank's membership in one job. All functions may be called from any thread.
class Session {
 public:
  /// Joins the job behind `transport`.
  Session(std::unique_ptr<Transport> transport, const Settings& settings);
  ~Session();

  [[nodiscard]] const Topology& topology() const;
  [[nodiscard]] std::string_view transport_name() const;
  [[nodiscard]] const Counters& counters() const;

  /// Starts an operation. The memory of both tensors stays valid and untouched until the handle is complete.
  /// Throws Error(kInvalidArgument) for wrong arguments, after telling the other ranks, and for a name in
  /// use. After a failed operation in place the content of the tensor is undefined, unless ranks only
  /// disagreed.
  [[nodiscard]] HandlePtr submit(Call call);

  /// What is submitted while one of these lives, by any thread, is announced at its end, in one message: many
  /// calls then travel in few batches. Do not wait for a handle meanwhile.
  class Together {
   public:
    explicit Together(Session& session);
    ~Together();
    Together(const Together&) = delete;
    Together& operator=(const Together&) = delete;

   private:
    Session& session_;
  };

  /// While one of these lives, the session works as promptly as if a thread were blocked in `wait_until`: for
  /// threads that wait for what Handle::report_to tells. Make it after submitting.
  class Attention {
   public:
    explicit Attention(Session& session);
    ~Attention();
    Attention(const Attention&) = delete;
    Attention& operator=(const Attention&) = delete;

   private:
    Session& session_;
  };

  /// For a call that a front end refuses itself: takes its place, so that the other ranks get an error and do
  /// not wait. Does nothing where nobody can wait for this rank: it is no member, or there is no such set.
  void refuse(OpKind op, const std::string& name, std::int32_t process_set, const std::string& reason,
              Caller caller = {});

  /// The ranks of a process set, ascending. Throws Error(kInvalidArgument) when there is none of this id.
  [[nodiscard]] std::vector<int> process_set(std::int32_t id) const;

  /// Blocks until complete or the deadline has passed; says whether it is complete. The waiting thread takes
  /// part in the work; a batch that it has begun is finished first, also past the deadline.
  [[nodiscard]] bool wait_until(Handle& handle, TimePoint deadline);
  /// For a handle of an operation on a device that is complete, which means launched: what `stream` is given
  /// from now on runs after it, or with HORA_WAIT_ON_HOST the host waits for it. Throws Error(kSessionFailed)
  /// when it or the session has failed meanwhile.
  void order_before(const Handle& handle, std::uintptr_t stream) const;
  /// Throws why the session has failed, if it has. On a device an operation may fail after its wait.
  void require_working() const;
  /// The name of a handle that has been waited for or seen complete may be used again.
  void release(const Handle& handle);

  /// Memory that ranks of one host reduce without copying it, where they share memory; elsewhere ordinary
  /// memory. It lives as long as the pointer. Throws Error(kStartup) when there is not enough.
  [[nodiscard]] std::shared_ptr<std::byte[]> allocate(std::size_t bytes);

  /// Leaves the job. What is pending here and, where it needs this rank, elsewhere fails. The others learn
  /// the cause, if something went wrong here.
  void leave(const std::string& cause = "");
  /// Fails the job on all ranks, because this process is about to end: the others learn the reason. Returns
  /// when they have been told, or after the deadline.
  void give_up(const std::string& reason, TimePoint deadline);
  /// Whether the session has ended because something went wrong on another rank.
  [[nodiscard]] bool failed_elsewhere() const;
  /// To be called in a forked child, where nothing else works: closes what belongs to the parent.
  void close_in_child();

 private:
  [[nodiscard]] std::shared_ptr<const std::vector<int>> find_process_set(std::int32_t id) const;

  const bool waits_on_host_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace hora
