#include "backends/cuda/kernels.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "backends/cuda/image_cache.h"
#include "backends/cuda/nvrtc.h"
#include "base/hash.h"
#include "base/text.h"

namespace hora::cuda {
namespace {

constexpr int kLargeParametersVersion = 12010;  // of the driver's interface: CUDA 12.1

std::string text_of(const Driver& driver, Result error) {
  const char* name = nullptr;
  if (driver.error_name(error, &name) == Result::kSuccess && name != nullptr) return name;
  return fmt::format("error {}", static_cast<int>(error));
}

/// Whether the driver cannot use the image, though another might do.
bool is_refused(Result result) {
  return result == Result::kNoBinaryForGpu || result == Result::kInvalidPtx ||
         result == Result::kUnsupportedPtxVersion || result == Result::kInvalidImage;
}

struct Target {
  int driver_version = 0;
  int major = 0;
  int minor = 0;

  [[nodiscard]] bool takes_large_parameters() const { return driver_version >= kLargeParametersVersion; }
};

Target target_of(const Driver& driver, DeviceNumber device) {
  Target target;
  driver.driver_version(&target.driver_version);
  driver.device_attribute(&target.major, DeviceAttribute::kComputeCapabilityMajor, device);
  driver.device_attribute(&target.minor, DeviceAttribute::kComputeCapabilityMinor, device);
  return target;
}

/// The first function that the module lacks, or null.
const char* fetch(const Driver& driver, Module module, const char* suffix,
                  PackKernels::Functions& functions) {
  for (std::size_t kernel = 0; kernel < kPackKernels.size(); ++kernel) {
    const std::string name = std::string(kPackKernels[kernel].name) + suffix;
    if (driver.module_function(&functions[kernel], module, name.c_str()) != Result::kSuccess)
      return kPackKernels[kernel].name.data();
  }
  return nullptr;
}

struct Attempt {
  Result result;
  LoadedKernels loaded;
};

/// `origin` begins a sentence: "the machine code within hora".
Attempt load(const Driver& driver, const Target& target, const void* image, const std::string& origin) {
  Module module = nullptr;
  const Result result = driver.module_load(&module, image);
  if (result != Result::kSuccess)
    return {result, {nullptr, fmt::format("the driver refuses {} ({})", origin, text_of(driver, result))}};
  PackKernels::Functions small{};
  auto large = std::make_unique<PackKernels::Functions>();
  if (!target.takes_large_parameters() || fetch(driver, module, "_large", *large) != nullptr) large.reset();
  const char* missing = fetch(driver, module, "", small);
  auto kernels = std::make_unique<PackKernels>(driver, module, small, std::move(large));
  if (missing != nullptr)
    return {Result::kNotFound, {nullptr, fmt::format("{} lacks the kernel {}", origin, missing)}};
  return {Result::kSuccess, {std::move(kernels), "the packing kernels are " + origin}};
}

/// Compiles, or finds in the cache what was compiled before, and loads that.
class Compiler {
 public:
  Compiler(const Driver& driver, const Target& target, const KernelSearch& search,
           const EmbeddedKernels& embedded)
      : driver_(driver), target_(target), search_(search), embedded_(embedded) {}

  LoadedKernels load_compiled() {
    std::vector<std::string> problems;
    const auto nvrtc = Nvrtc::open(search_.nvrtc_folders, target_.driver_version / 1000, problems);
    if (!nvrtc) return {nullptr, join(problems, "; ")};
    const std::string architecture = nvrtc->architecture(target_.major, target_.minor);
    if (architecture.empty()) {
      return {nullptr, fmt::format("{} (NVRTC {}) does not know GPUs of compute capability {}.{}",
                                   nvrtc->path(), nvrtc->version(), target_.major, target_.minor)};
    }
    const bool is_large = target_.takes_large_parameters() && nvrtc->knows_large_parameters();
    const std::string path = cache_path(*nvrtc, architecture, is_large);
    const std::string origin =
        fmt::format("what {} (NVRTC {}) makes for {}", nvrtc->path(), nvrtc->version(), architecture);
    if (auto loaded = load_cached(path, origin); loaded.kernels) return loaded;
    const Compiled compiled = nvrtc->compile(embedded_.sources, architecture, is_large);
    if (compiled.image.empty())
      return {nullptr, fmt::format("{} cannot compile the kernels: {}", nvrtc->path(), compiled.log)};
    auto attempt = load(driver_, target_, compiled.image.data(), origin);
    if (attempt.loaded.kernels && !path.empty()) write_image(path, compiled.image);
    return std::move(attempt.loaded);
  }

 private:
  [[nodiscard]] std::string cache_path(const Nvrtc& nvrtc, const std::string& architecture,
                                       bool is_large) const {
    if (search_.cache_folder.empty()) return {};
    std::vector<std::string_view> texts;
    for (const EmbeddedText& source : embedded_.sources) texts.push_back(source.text);
    return fmt::format("{}/pack_kernels-{:016x}-{}-nvrtc{}{}.bin", search_.cache_folder, hash_of(texts),
                       architecture, nvrtc.version(), is_large ? "-large" : "");
  }

  /// A file that the driver does not take is written anew.
  [[nodiscard]] LoadedKernels load_cached(const std::string& path, const std::string& origin) const {
    if (path.empty()) return {};
    const auto image = read_image(path);
    if (!image) return {};
    return load(driver_, target_, image->data(), fmt::format("{}, kept in {}", origin, path)).loaded;
  }

  const Driver& driver_;
  const Target& target_;
  const KernelSearch& search_;
  const EmbeddedKernels& embedded_;
};

}  // namespace

PackKernels::PackKernels(const Driver& driver, Module module, const Functions& small,
                         std::unique_ptr<Functions> large)
    : driver_(driver), module_(module), small_(small), large_(std::move(large)) {}

PackKernels::~PackKernels() {
  driver_.module_unload(module_);
}

std::size_t PackKernels::capacity() const {
  return large_ ? LargePackArguments::kMaxPieces : SmallPackArguments::kMaxPieces;
}

Result PackKernels::launch(const PackLaunch& launch, Stream stream) const {
  const Functions& functions = launch.is_large() ? *large_ : small_;
  void* parameter = launch.arguments.get();
  return driver_.launch_kernel(functions[launch.kernel], launch.blocks, 1, 1, kPackThreads, 1, 1, 0, stream,
                               &parameter, nullptr);
}

LoadedKernels load_pack_kernels(const Driver& driver, DeviceNumber device, const KernelSearch& search,
                                const EmbeddedKernels& embedded) {
  const Target target = target_of(driver, device);
  std::string refusal = "hora was built without nvcc";
  if (!embedded.fatbin.empty()) {
    auto attempt = load(driver, target, embedded.fatbin.data(), "the machine code within hora");
    if (!is_refused(attempt.result)) return std::move(attempt.loaded);
    refusal = std::move(attempt.loaded.reason);
  }
  LoadedKernels loaded = Compiler(driver, target, search, embedded).load_compiled();
  loaded.reason = loaded.kernels ? fmt::format("{}, since {}", loaded.reason, refusal)
                                 : fmt::format("GPU tensors are not packed: {}; {}", refusal, loaded.reason);
  return loaded;
}

}  // namespace hora::cuda
