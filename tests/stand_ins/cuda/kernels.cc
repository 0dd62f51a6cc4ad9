// Modules hold every kernel that is registered; a kernel runs as a whole, on the thread of its stream.

#include "stand_ins/cuda/kernels.h"

#include <cstring>
#include <memory>
#include <vector>

#include "stand_ins/cuda/captures.h"
#include "stand_ins/cuda/symbols.h"
#include "stand_ins/cuda/work.h"

namespace hora::fake_cuda {
namespace {

constexpr unsigned kMaxThreadsPerBlock = 1024;
constexpr std::uint64_t kMaxBlocks = (std::uint64_t{1} << 31) - 1;

/// The parameter as it is at the launch, aligned for every type.
std::vector<std::max_align_t> copy_parameter(const KernelEntry& kernel, void* const* parameters) {
  const std::size_t unit = sizeof(std::max_align_t);
  std::vector<std::max_align_t> copy((kernel.parameter_bytes + unit - 1) / unit);
  if (kernel.parameter_bytes == 0) return copy;
  require(parameters && parameters[0], Result::kInvalidValue);
  std::memcpy(copy.data(), parameters[0], kernel.parameter_bytes);
  return copy;
}

}  // namespace

extern "C" {

Result cuModuleLoadData(cuda::Module* module, const void* image) {
  return call([&](State& state, Lock&) {
    require(module != nullptr && image != nullptr, Result::kInvalidValue);
    const auto context = current_context(state);
    require_no_capture_forbids(state);
    *module = state.modules.add(std::make_shared<ModuleState>(ModuleState{.context = context}));
  });
}

Result cuModuleUnload(cuda::Module module) {
  return call([&](State& state, Lock&) {
    const auto removed = state.modules.remove(module);
    require(removed != nullptr, Result::kInvalidHandle);
    state.functions.remove_if([&](const FunctionState& each) { return each.module == removed; });
  });
}

Result cuModuleGetFunction(cuda::Function* function, cuda::Module module, const char* name) {
  return call([&](State& state, Lock&) {
    require(function != nullptr && name != nullptr, Result::kInvalidValue);
    current_context(state);
    const auto found = state.modules.find(module);
    require(found != nullptr, Result::kInvalidHandle);
    const auto kernel = state.kernels.find(name);
    require(kernel != state.kernels.end(), Result::kNotFound);
    *function = state.functions.add(
        std::make_shared<FunctionState>(FunctionState{.module = found, .kernel = kernel->second}));
  });
}

Result cuLaunchKernel(cuda::Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned, cuda::Stream stream,
                      void** parameters, void** extra) {
  return call([&](State& state, Lock&) {
    const auto on = find_stream_for_work(state, stream);
    const auto found = state.functions.find(function);
    require(found && found->module->context == on->context, Result::kInvalidHandle);
    const std::uint64_t grid = std::uint64_t{grid_x} * grid_y * grid_z;
    const std::uint64_t block = std::uint64_t{block_x} * block_y * block_z;
    require(grid > 0 && grid <= kMaxBlocks && block > 0 && block <= kMaxThreadsPerBlock && !extra,
            Result::kInvalidValue);
    const auto run = [kernel = found->kernel, parameter = copy_parameter(found->kernel, parameters), grid,
                      block]() mutable {
      void* const pointers[] = {parameter.data()};
      kernel.run(static_cast<unsigned>(grid), static_cast<unsigned>(block), pointers);
      return true;
    };
    submit(state, on, {.run = run, .count = &Counts::kernels});
  });
}

void fake_cuda_register_kernel(const char* name, std::size_t parameter_bytes, Kernel kernel) {
  State& state = the_state();
  const Lock lock(state.mutex);
  state.kernels[name] = {parameter_bytes, kernel};
}
}

}  // namespace hora::fake_cuda
