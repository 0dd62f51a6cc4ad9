#include "backends/nccl/staging.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace hora::nccl {
namespace {

// Less would make packing slower than sending tensors one by one.
constexpr std::size_t kLeastBytes = std::size_t{1} << 20;

}  // namespace

Staging::Staging(std::shared_ptr<const Nccl> nccl, std::shared_ptr<cuda::Device> device,
                 std::span<std::byte> memory)
    : nccl_(std::move(nccl)), device_(std::move(device)), memory_(memory) {}

Staging::~Staging() {
  if (device_->is_abandoned()) return;
  const cuda::DeviceScope scope(*device_);
  static_cast<void>(nccl_->memory_free(memory_.data()));
}

std::shared_ptr<Staging> Staging::allocate(std::shared_ptr<const Nccl> nccl,
                                           std::shared_ptr<cuda::Device> device, std::size_t wanted,
                                           bool may_be_less) {
  const cuda::DeviceScope scope(*device);
  void* memory = nullptr;
  std::size_t bytes = std::max(wanted, kLeastBytes);
  while (nccl->memory_allocate(&memory, bytes) != Result::kSuccess) {
    if (!may_be_less) return nullptr;
    if (bytes <= kLeastBytes) {
      raise(ErrorKind::kInvalidArgument, "GPU {} has no {} bytes left in which tensors could be packed",
            device->number(), bytes);
    }
    bytes /= 2;
  }
  return std::shared_ptr<Staging>(
      new Staging(std::move(nccl), std::move(device), {static_cast<std::byte*>(memory), bytes}));
}

}  // namespace hora::nccl
