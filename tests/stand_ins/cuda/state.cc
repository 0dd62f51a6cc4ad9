#include "stand_ins/cuda/state.h"

#include <cstdlib>

#include "stand_ins/pack_kernels.h"

namespace hora::fake_cuda {
namespace {

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  if (!text || !*text) return otherwise;
  char* end = nullptr;
  const std::uint64_t number = std::strtoull(text, &end, 10);
  if (*end != '\0') stop(std::string(variable) + " is not a number: " + text);
  return number;
}

State* make_state() {
  auto* const state = new State;
  state->devices.resize(number_from("HORA_FAKE_CUDA_DEVICES", 8));
  state->options.seed = number_from("HORA_FAKE_CUDA_SEED", state->options.seed);
  state->options.delay_us =
      static_cast<std::uint32_t>(number_from("HORA_FAKE_CUDA_DELAY_US", state->options.delay_us));
  state->options.memory_bytes = number_from("HORA_FAKE_CUDA_MEMORY", state->options.memory_bytes);
  for (const stand_ins::HostKernel& kernel : stand_ins::host_kernels())
    state->kernels[kernel.name] = {kernel.parameter_bytes, kernel.function};
  state->version = static_cast<int>(number_from("HORA_FAKE_CUDA_VERSION", 13000));
  state->same_pci = number_from("HORA_FAKE_CUDA_SAME_PCI", 0) == 1;
  return state;
}

}  // namespace

State& the_state() {
  static State& state = *make_state();
  return state;
}

}  // namespace hora::fake_cuda
