#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/driver_api.h"
#include "backends/cuda/embedded_kernels.h"
#include "backends/cuda/packing.h"

namespace hora::cuda {

/// The packing kernels in one context. Immutable; `launch` may be called from any thread.
class PackKernels {
 public:
  using Functions = std::array<Function, kPackKernels.size()>;

  /// Owns the module. `large` is null where a launch may have few pieces only. The driver must outlive this.
  PackKernels(const Driver& driver, Module module, const Functions& small, std::unique_ptr<Functions> large);
  PackKernels(const PackKernels&) = delete;
  PackKernels& operator=(const PackKernels&) = delete;
  /// The context must be current, unless the driver has been shut down.
  ~PackKernels();

  /// How many pieces a launch may have, for `plan_launches`.
  [[nodiscard]] std::size_t capacity() const;

  /// Appends to the stream, of the current context. The arguments may be gone when this returns; what they
  /// point to stays until the stream has come past.
  [[nodiscard]] Result launch(const PackLaunch& launch, Stream stream) const;

 private:
  const Driver& driver_;
  Module module_;
  Functions small_;
  std::unique_ptr<Functions> large_;
};

/// Where to look when the machine code within hora does not suit.
struct KernelSearch {
  std::vector<std::string> nvrtc_folders;  ///< may hold NVRTC, such as the wheel's `nvidia/cuda_nvrtc/lib`
  std::string cache_folder;                ///< keeps what was compiled; empty: nothing is kept
};

/// The kernels, or null; `reason` says where they come from, or why there are none.
struct LoadedKernels {
  std::unique_ptr<PackKernels> kernels;
  std::string reason;
};

/// Loads all kernels into the current context, which is `device`'s: the machine code that is embedded or,
/// when the driver cannot use it or there is none, what NVRTC makes of the embedded source. Compiling takes a
/// second or two the first time. Every function is fetched at once, because the driver may stop the device
/// while it loads one.
[[nodiscard]] LoadedKernels load_pack_kernels(const Driver& driver, DeviceNumber device,
                                              const KernelSearch& search,
                                              const EmbeddedKernels& embedded = embedded_kernels());

}  // namespace hora::cuda
