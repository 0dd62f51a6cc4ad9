#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/memory_pool.h"
#include "backends/nccl/doorbell.h"
#include "backends/nccl/lane.h"
#include "backends/nccl/launched.h"
#include "backends/nccl/nccl_library.h"
#include "backends/nccl/staging.h"
#include "backends/tensors.h"
#include "base/stragglers.h"

namespace hora::nccl {

/// Runs batches of GPU memory over NCCL: one GPU per rank, and on it one stream that carries the batches of
/// all process sets in the order in which they were agreed. Running a batch means telling the GPU what to do;
/// when that is done, nobody waits for here, except who asks for it.
///
/// Nothing of CUDA or NCCL is touched before the first call with a tensor on a GPU.
///
/// Lock map: device_, library_, pool_, kernels_ and staging_ -> mutex_ until is_open_ is set; afterwards they
/// belong to the engine's background thread, as all else does, but for device_, which is never set again;
/// calls_ -> mutex_;
/// device_of_join_ is an atomic.
class NcclBackend final : public Backend {
 public:
  explicit NcclBackend(const Settings& settings);
  ~NcclBackend() override;

  void prepare(Submission& submission, int members) override;
  [[nodiscard]] bool accepts(const Batch& batch) const override;
  void run(const Batch& batch, std::span<Submission> calls, const Group& group) override;
  std::size_t unfinished(TimePoint now) override;
  [[nodiscard]] std::optional<OnDevice> first_unfinished() const override { return launched_.first(); }
  [[nodiscard]] std::vector<std::int32_t> take_finished() override { return launched_.take_finished(); }
  void ring_at_next_end(std::function<void()> ring) override;
  void forget(std::int32_t process_set, const Meanwhile& meanwhile) override;
  void close(const Meanwhile& meanwhile) override;
  void fail(const Error& error) noexcept override;

 private:
  struct Needs;

  [[nodiscard]] bool open(int device, bool may_be_short);
  void require_open(int device);
  [[nodiscard]] cuda::MemoryPool::Reserve reserve(std::size_t bytes);
  void reserve_results(Submission& submission, int members);
  [[nodiscard]] DeviceSet& set_of(std::int32_t process_set, const Group& group);
  [[nodiscard]] DeviceSet make_set(const Group& group);
  [[nodiscard]] bool set_up_packing(bool may_be_short);
  void wait_for_inputs(std::span<const Submission> calls) const;
  void keep(const Batch& batch, const std::shared_ptr<LaunchedBatch>& launched, std::span<Submission> calls);
  void wait_until_idle(const Meanwhile& meanwhile);
  [[nodiscard]] Duration abort_limit() const;
  void launch(const Batch& batch, std::span<Submission> calls, const Group& group, LaunchedBatch& launched);

  const DeviceSettings settings_;
  const std::size_t wanted_staging_;
  const std::shared_ptr<Stragglers> stragglers_;
  std::mutex mutex_;
  std::shared_ptr<cuda::Device> device_;
  NcclLibrary library_;
  std::uint64_t calls_ = 0;
  std::atomic<int> device_of_join_ = -1;
  std::atomic<bool> is_open_ = false;

  std::unique_ptr<cuda::PackKernels> kernels_;
  std::shared_ptr<Staging> staging_;
  std::shared_ptr<cuda::MemoryPool> pool_;
  std::map<std::int32_t, DeviceSet> sets_;  // by process set
  LaunchedBatches launched_;
  TimePoint last_check_;
  BatchTensors tensors_;
  const std::shared_ptr<Doorbell> doorbell_;
};

}  // namespace hora::nccl
