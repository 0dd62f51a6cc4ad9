#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/kernels.h"
#include "backends/cuda/memory_pool.h"
#include "backends/nccl/communicator.h"
#include "ops/device.h"

namespace hora::nccl {

/// What a process set has on this rank's device, as all its ranks agreed when it was made.
struct DeviceSet {
  std::unique_ptr<Communicator> communicator;
  int size = 0;  ///< ranks
  std::span<std::byte> staging;
  const cuda::PackKernels* kernels = nullptr;  ///< null unless every rank has them
};

/// Puts the work of one batch on the device's stream.
class Lane final : public DeviceLane {
 public:
  /// `reserves` are for results; `meanwhile` runs while NCCL is at a call.
  Lane(const Nccl& nccl, const cuda::Device& device, const DeviceSet& set, cuda::MemoryPool& pool,
       std::vector<cuda::MemoryPool::Reserve> reserves, cuda::Consumer consumer, Meanwhile meanwhile)
      : nccl_(nccl),
        device_(device),
        set_(set),
        pool_(pool),
        has_reserves_(!reserves.empty() && std::ranges::find(reserves, nullptr) == reserves.end()),
        reserves_(std::move(reserves)),
        consumer_(std::move(consumer)),
        meanwhile_(std::move(meanwhile)) {}

  [[nodiscard]] bool has_kernels() const override { return set_.kernels != nullptr; }
  [[nodiscard]] std::span<std::byte> staging() override { return set_.staging; }
  [[nodiscard]] bool has_reserves() const override { return has_reserves_; }
  [[nodiscard]] std::shared_ptr<std::byte[]> allocate(std::size_t bytes) override;
  void move(std::span<const DeviceMove> moves, const Conversion& conversion) override;
  void fill(std::byte* to, std::size_t count, DType dtype, ReduceOp reduce) override;
  void begin_group() override;
  void end_group() override;
  void all_reduce(const std::byte* from, std::byte* to, std::size_t count, DType dtype,
                  ReduceOp reduce) override;
  void reduce_scatter(const std::byte* from, std::byte* to, std::size_t count, DType dtype,
                      ReduceOp reduce) override;
  void broadcast(const std::byte* from, std::byte* to, std::size_t bytes, int root) override;
  void all_gather(const std::byte* from, std::byte* to, std::size_t bytes) override;
  void all_to_all(const std::byte* from, std::byte* to, std::size_t bytes) override;
  void send(const std::byte* from, std::size_t bytes, int peer) override;
  void receive(std::byte* to, std::size_t bytes, int peer) override;

 private:
  void take(Result result, const char* what) const;
  void launch(const std::vector<cuda::PackLaunch>& launches);

  const Nccl& nccl_;
  const cuda::Device& device_;
  const DeviceSet& set_;
  cuda::MemoryPool& pool_;
  const bool has_reserves_;
  std::vector<cuda::MemoryPool::Reserve> reserves_;
  const cuda::Consumer consumer_;
  const Meanwhile meanwhile_;
  std::vector<cuda::PackPiece> pieces_;
  bool in_group_ = false;
};

}  // namespace hora::nccl
