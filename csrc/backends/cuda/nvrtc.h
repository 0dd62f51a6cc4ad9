#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/embedded_kernels.h"

namespace hora::cuda {

/// An image for `module_load`, or why there is none. Code for one architecture runs at once; PTX is compiled
/// further by the driver.
struct Compiled {
  std::vector<std::byte> image;  ///< ends with a zero byte; empty when compilation failed
  std::string log;               ///< what the compiler said
};

/// NVIDIA's run-time compiler, opened with dlopen and never closed. It needs neither a driver nor a GPU.
class Nvrtc {
 public:
  /// Opens the first that is not newer than CUDA `newest_major` (drivers refuse what newer ones make): one
  /// that the process has loaded, one in these folders, one the system knows. Appends to `problems` why
  /// others were not taken.
  static std::optional<Nvrtc> open(std::span<const std::string> folders, int newest_major,
                                   std::vector<std::string>& problems);

  /// The file it is in.
  [[nodiscard]] const std::string& path() const { return path_; }
  /// "13.0"; together with source and options it determines the image.
  [[nodiscard]] std::string version() const;

  /// What to compile for a device of compute capability `major`.`minor`: "sm_90", or "compute_90" (PTX) when
  /// only older devices are known; empty when all known ones are newer.
  [[nodiscard]] std::string architecture(int major, int minor) const;

  /// Compiles the first source for an architecture. `is_large`: also the kernels with large parameters.
  [[nodiscard]] Compiled compile(std::span<const EmbeddedText> sources, const std::string& architecture,
                                 bool is_large) const;

  /// Whether the compiler knows parameters of more than 4096 bytes.
  [[nodiscard]] bool knows_large_parameters() const { return major_ > 12 || (major_ == 12 && minor_ >= 1); }

 private:
  using Program = struct ProgramTag*;  // nvrtcProgram

  Nvrtc() = default;
  bool resolve(void* library);
  void locate();
  template <typename Size, typename Text>
  std::vector<std::byte> bytes_of(Program program, Size size, Text text) const;

  int (*version_)(int* major, int* minor) = nullptr;    // nvrtcVersion
  const char* (*error_string_)(int error) = nullptr;    // nvrtcGetErrorString
  int (*architecture_count_)(int* count) = nullptr;     // nvrtcGetNumSupportedArchs
  int (*architectures_)(int* architectures) = nullptr;  // nvrtcGetSupportedArchs
  int (*create_)(Program* program, const char* source, const char* name, int header_count,
                 const char* const* headers, const char* const* names) = nullptr;  // nvrtcCreateProgram
  int (*compile_)(Program program, int option_count,
                  const char* const* options) = nullptr;              // nvrtcCompileProgram
  int (*destroy_)(Program* program) = nullptr;                        // nvrtcDestroyProgram
  int (*log_size_)(Program program, std::size_t* bytes) = nullptr;    // nvrtcGetProgramLogSize
  int (*log_)(Program program, char* text) = nullptr;                 // nvrtcGetProgramLog
  int (*ptx_size_)(Program program, std::size_t* bytes) = nullptr;    // nvrtcGetPTXSize
  int (*ptx_)(Program program, char* text) = nullptr;                 // nvrtcGetPTX
  int (*cubin_size_)(Program program, std::size_t* bytes) = nullptr;  // nvrtcGetCUBINSize
  int (*cubin_)(Program program, char* bytes) = nullptr;              // nvrtcGetCUBIN

  std::string path_;
  int major_ = 0;
  int minor_ = 0;
};

}  // namespace hora::cuda
