#include "backends/cuda/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace hora::cuda {
namespace {

// The newest first; 11.2 was the name throughout CUDA 11.2 to 11.8.
constexpr std::array<const char*, 4> kLibraries{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                                "libnvrtc.so"};

struct Candidate {
  std::string path;
  int flags;
};

std::vector<Candidate> candidates(std::span<const std::string> folders) {
  std::vector<Candidate> found;
  for (const char* library : kLibraries) found.push_back({library, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD});
  for (const std::string& folder : folders) {
    for (const char* library : kLibraries)
      found.push_back({fmt::format("{}/{}", folder, library), RTLD_NOW | RTLD_LOCAL});
  }
  for (const char* library : kLibraries) found.push_back({library, RTLD_NOW | RTLD_LOCAL});
  return found;
}

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

/// The file that the functions are in. Its neighbour, where NVRTC has its own definitions, is opened as well:
/// the wheels' NVRTC does not look for it there.
void Nvrtc::locate() {
  Dl_info where{};
  if (dladdr(reinterpret_cast<void*>(version_), &where) == 0 || where.dli_fname == nullptr) return;
  path_ = where.dli_fname;
  const std::string folder = path_.substr(0, path_.rfind('/') + 1);
  dlopen(fmt::format("{}libnvrtc-builtins.so.{}", folder, version()).c_str(), RTLD_NOW | RTLD_LOCAL);
}

bool Nvrtc::resolve(void* library) {
  return find(library, "nvrtcVersion", version_) && find(library, "nvrtcGetErrorString", error_string_) &&
         find(library, "nvrtcGetNumSupportedArchs", architecture_count_) &&
         find(library, "nvrtcGetSupportedArchs", architectures_) &&
         find(library, "nvrtcCreateProgram", create_) && find(library, "nvrtcCompileProgram", compile_) &&
         find(library, "nvrtcDestroyProgram", destroy_) &&
         find(library, "nvrtcGetProgramLogSize", log_size_) && find(library, "nvrtcGetProgramLog", log_) &&
         find(library, "nvrtcGetPTXSize", ptx_size_) && find(library, "nvrtcGetPTX", ptx_) &&
         find(library, "nvrtcGetCUBINSize", cubin_size_) && find(library, "nvrtcGetCUBIN", cubin_) &&
         version_(&major_, &minor_) == 0;
}

std::optional<Nvrtc> Nvrtc::open(std::span<const std::string> folders, int newest_major,
                                 std::vector<std::string>& problems) {
  for (const Candidate& candidate : candidates(folders)) {
    void* library = dlopen(candidate.path.c_str(), candidate.flags);
    if (library == nullptr) continue;
    Nvrtc nvrtc;
    nvrtc.path_ = candidate.path;
    if (!nvrtc.resolve(library)) {
      problems.push_back(candidate.path + " is older than NVRTC 11.2");
    } else if (nvrtc.major_ > newest_major) {
      problems.push_back(fmt::format("{} makes code for CUDA {}, the driver runs CUDA {}", candidate.path,
                                     nvrtc.version(), newest_major));
    } else {
      nvrtc.locate();
      return nvrtc;
    }
  }
  problems.emplace_back("no usable libnvrtc was found beside PyTorch or on the system");
  return std::nullopt;
}

std::string Nvrtc::version() const {
  return fmt::format("{}.{}", major_, minor_);
}

std::string Nvrtc::architecture(int major, int minor) const {
  const int wanted = 10 * major + minor;
  int count = 0;
  if (architecture_count_(&count) != 0 || count <= 0) return {};
  std::vector<int> known(static_cast<std::size_t>(count));
  if (architectures_(known.data()) != 0) return {};
  if (std::ranges::find(known, wanted) != known.end()) return fmt::format("sm_{}", wanted);
  std::erase_if(known, [wanted](int each) { return each > wanted; });
  return known.empty() ? std::string() : fmt::format("compute_{}", std::ranges::max(known));
}

template <typename Size, typename Text>
std::vector<std::byte> Nvrtc::bytes_of(Program program, Size size, Text text) const {
  std::size_t bytes = 0;
  if (size(program, &bytes) != 0 || bytes == 0) return {};
  std::vector<std::byte> result(bytes + 1);
  if (text(program, reinterpret_cast<char*>(result.data())) != 0) return {};
  return result;
}

Compiled Nvrtc::compile(std::span<const EmbeddedText> sources, const std::string& architecture,
                        bool is_large) const {
  std::vector<const char*> headers;
  std::vector<const char*> names;
  for (const EmbeddedText& header : sources.subspan(1)) {
    headers.push_back(header.text.data());
    names.push_back(header.name);
  }
  Program program = nullptr;
  const int created = create_(&program, sources.front().text.data(), sources.front().name,
                              static_cast<int>(headers.size()), headers.data(), names.data());
  if (created != 0) return {{}, error_string_(created)};
  const std::string target = "--gpu-architecture=" + architecture;
  const std::array<const char*, 3> options{
      "--std=c++17", target.c_str(), is_large ? "-DHORA_LARGE_ARGUMENTS=1" : "-DHORA_LARGE_ARGUMENTS=0"};
  const int result = compile_(program, static_cast<int>(options.size()), options.data());
  Compiled compiled;
  const auto log = bytes_of(program, log_size_, log_);
  if (!log.empty()) compiled.log = reinterpret_cast<const char*>(log.data());
  if (result != 0) {
    compiled.log = fmt::format("{}: {}", error_string_(result), compiled.log);
  } else if (architecture.starts_with("sm_")) {
    compiled.image = bytes_of(program, cubin_size_, cubin_);
  } else {
    compiled.image = bytes_of(program, ptx_size_, ptx_);
  }
  destroy_(&program);
  return compiled;
}

}  // namespace hora::cuda
