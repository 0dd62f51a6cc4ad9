#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "backends/cuda/device.h"
#include "backends/nccl/nccl_api.h"

namespace hora::nccl {

/// Where tensors travel packed: memory that NCCL can register with the network. Its users on the device
/// follow each other on one stream, so one piece of memory serves all.
class Staging {
 public:
  /// Null when there are no `wanted` bytes, unless there `may_be` less: then half of them, a quarter and so
  /// on. Throws Error(kInvalidArgument), naming the bytes, when hardly any are left.
  [[nodiscard]] static std::shared_ptr<Staging> allocate(std::shared_ptr<const Nccl> nccl,
                                                         std::shared_ptr<cuda::Device> device,
                                                         std::size_t wanted, bool may_be_less);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  [[nodiscard]] std::span<std::byte> memory() const { return memory_; }

 private:
  Staging(std::shared_ptr<const Nccl> nccl, std::shared_ptr<cuda::Device> device,
          std::span<std::byte> memory);

  const std::shared_ptr<const Nccl> nccl_;
  const std::shared_ptr<cuda::Device> device_;
  const std::span<std::byte> memory_;
};

}  // namespace hora::nccl
