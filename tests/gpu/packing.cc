// The packing kernels where they are meant to run: their results against those of the same code on the host,
// which the C++ tests compare with the collectives, and their speed against a copy on the device.
//
//     hora_gpu_packing check
//     hora_gpu_packing bandwidth BYTES
//
// Rows go to stdout as JSON, one a line. Exit status 1: a result is wrong.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/cuda/cuda_library.h"
#include "backends/cuda/device.h"
#include "backends/cuda/kernels.h"
#include "backends/library_search.h"
#include "base/bytes.h"
#include "base/config.h"
#include "base/error.h"
#include "base/half.h"
#include "stand_ins/pack_kernels.h"

namespace hora::cuda {
namespace {

// --- the device

/// What only a test asks of the driver.
struct MoreOfDriver {
  Result (*wait)(Event event);
  Result (*copy)(DevicePointer to, DevicePointer from, std::size_t bytes, Stream stream);
  Result (*write)(DevicePointer to, const void* from, std::size_t bytes, Stream stream);
  Result (*read)(void* to, DevicePointer from, std::size_t bytes, Stream stream);
};

struct Gpu {
  std::shared_ptr<const Driver> driver;
  MoreOfDriver more;
  std::shared_ptr<Device> device;
  std::unique_ptr<PackKernels> kernels;
  std::string reason;  ///< where the kernels come from
};

std::string setting(std::string_view name) {
  return process_environment(name).value_or("");
}

/// The library has been opened before.
MoreOfDriver bind_more() {
  const FoundLibrary found = find_library({.path = setting("HORA_CUDA_LIBRARY"),
                                           .setting = "HORA_CUDA_LIBRARY",
                                           .symbol = "cuEventSynchronize",
                                           .names = {"libcuda.so.1"},
                                           .folders = {}});
  MoreOfDriver more{};
  SymbolBinder binder(found);
  binder.bind(more.wait, "cuEventSynchronize");
  binder.bind(more.copy, "cuMemcpyDtoDAsync_v2");
  binder.bind(more.write, "cuMemcpyHtoDAsync_v2");
  binder.bind(more.read, "cuMemcpyDtoHAsync_v2");
  if (!binder.missing().empty()) throw std::runtime_error(binder.missing().front() + " is missing");
  return more;
}

Gpu open_gpu() {
  CudaLibrary cuda = open_cuda(setting("HORA_CUDA_LIBRARY"));
  if (!cuda.driver) throw std::runtime_error(cuda.problem);
  Gpu gpu{cuda.driver, bind_more(), std::make_shared<Device>(cuda.driver, 0), nullptr, {}};
  const DeviceScope scope(*gpu.device);
  LoadedKernels loaded = load_pack_kernels(*gpu.driver, 0, {{}, setting("HORA_CACHE_FOLDER")});
  if (!loaded.kernels) throw std::runtime_error(loaded.reason);
  gpu.kernels = std::move(loaded.kernels);
  gpu.reason = loaded.reason;
  return gpu;
}

void wait(const Gpu& gpu) {
  const auto event = gpu.device->new_event();
  check(*gpu.driver, gpu.driver->event_record(event.get(), gpu.device->stream()), "cuEventRecord");
  check(*gpu.driver, gpu.more.wait(event.get()), "cuEventSynchronize");
}

/// Memory of the device; its contents are copied whole.
class DeviceMemory {
 public:
  DeviceMemory(const Gpu& gpu, std::size_t bytes) : gpu_(gpu), bytes_(bytes) {
    check(*gpu_.driver, gpu_.driver->memory_allocate(&address_, bytes), "cuMemAlloc");
  }
  ~DeviceMemory() { static_cast<void>(gpu_.driver->memory_free(address_)); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] std::byte* at(std::size_t offset) const {
    return reinterpret_cast<std::byte*>(address_ + offset);
  }
  void write(const std::byte* values) const {
    check(*gpu_.driver, gpu_.more.write(address_, values, bytes_, gpu_.device->stream()),
          "cuMemcpyHtoDAsync");
    wait(gpu_);
  }
  void read(std::byte* values) const {
    check(*gpu_.driver, gpu_.more.read(values, address_, bytes_, gpu_.device->stream()), "cuMemcpyDtoHAsync");
    wait(gpu_);
  }
  void copy_from(const DeviceMemory& other) const {
    check(*gpu_.driver, gpu_.more.copy(address_, other.address_, bytes_, gpu_.device->stream()),
          "cuMemcpyDtoDAsync");
  }

 private:
  const Gpu& gpu_;
  const std::size_t bytes_;
  DevicePointer address_ = 0;
};

void launch(const Gpu& gpu, const std::vector<PackLaunch>& launches) {
  for (const PackLaunch& each : launches)
    check(*gpu.driver, gpu.kernels->launch(each, gpu.device->stream()), "cuLaunchKernel");
}

// --- what is checked

constexpr std::size_t kGuard = 64;
constexpr std::byte kUntouched{0xa5};

void* in_place(const void* pointer, std::size_t) {
  return const_cast<void*>(pointer);
}

void run_on_host(const std::vector<PackLaunch>& launches) {
  const auto& kernels = stand_ins::HostKernels<in_place>::kTable;
  for (const PackLaunch& each : launches) {
    std::string name(kPackKernels[each.kernel].name);
    if (each.is_large()) name += "_large";
    const auto* kernel = std::ranges::find(kernels, name, &stand_ins::HostKernel::name);
    void* parameter = each.arguments.get();
    kernel->function(each.blocks, kPackThreads, &parameter);
  }
}

/// Where the elements of a piece lie in the memory of all, from both sides.
struct Place {
  std::size_t from;
  std::size_t to;
  std::size_t count;
};

struct Layout {
  std::vector<Place> places;
  std::size_t from_bytes = 0;
  std::size_t to_bytes = 0;
};

/// Each piece has the next combination of alignments, and bytes between it and the next that must not change.
Layout lay_out(const std::vector<std::size_t>& counts, std::size_t from_size, std::size_t to_size) {
  Layout layout;
  for (const std::size_t count : counts) {
    const std::size_t number = layout.places.size();
    const std::size_t from = layout.from_bytes + number % 5 * from_size % 16;
    const std::size_t to = layout.to_bytes + kGuard + number / 5 % 5 * to_size % 16;
    layout.places.push_back({from, to, count});
    layout.from_bytes = (from + count * from_size + kGuard) / kGuard * kGuard;
    layout.to_bytes = (to + count * to_size + 2 * kGuard) / kGuard * kGuard;
  }
  return layout;
}

std::vector<PackPiece> pieces_of(const Layout& layout, const std::byte* from, std::byte* to) {
  std::vector<PackPiece> pieces;
  for (const Place& place : layout.places)
    pieces.push_back({from + place.from, to + place.to, static_cast<long long>(place.count), 0});
  return pieces;
}

/// Aligned as memory of the device is.
class HostMemory {
 public:
  HostMemory(std::size_t bytes, std::byte value) : memory_(bytes + kGuard, value) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    begin_ = (kGuard - address % kGuard) % kGuard;
  }
  [[nodiscard]] std::byte* data() { return memory_.data() + begin_; }

 private:
  Bytes memory_;
  std::size_t begin_;
};

/// All bits, so that half types have every value and floats have infinities, NaNs and subnormals.
void fill_with_bits(std::byte* memory, std::size_t bytes) {
  std::mt19937_64 generator(bytes);
  for (std::size_t at = 0; at < bytes; ++at) memory[at] = static_cast<std::byte>(generator());
}

template <typename Value>
bool is_nan(const std::byte* element, Value magnitude_of_infinity) {
  Value bits;
  std::memcpy(&bits, element, sizeof(bits));
  return (bits & ~(Value{1} << (8 * sizeof(Value) - 1))) > magnitude_of_infinity;
}

/// The bits of a NaN are up to the processor.
bool is_nan(DType dtype, const std::byte* element) {
  switch (dtype) {
    case DType::kFloat16:
      return is_nan<std::uint16_t>(element, 0x7c00);
    case DType::kBFloat16:
      return is_nan<std::uint16_t>(element, 0x7f80);
    case DType::kFloat32:
      return is_nan<std::uint32_t>(element, 0x7f800000);
    case DType::kFloat64:
      return is_nan<std::uint64_t>(element, 0x7ff0000000000000);
    default:
      return false;
  }
}

/// What differs first, or nothing.
std::string compare(const Layout& layout, DType dtype, std::byte* expected, std::byte* got) {
  const std::size_t size = size_of(dtype);
  for (const Place& place : layout.places) {
    for (std::size_t index = 0; index < place.count; ++index) {
      std::byte* const one = expected + place.to + index * size;
      std::byte* const other = got + place.to + index * size;
      if (is_nan(dtype, one) && is_nan(dtype, other)) std::memcpy(other, one, size);
      if (std::memcmp(one, other, size) != 0)
        return fmt::format("element {} of a piece of {} differs", index, place.count);
    }
  }
  if (std::memcmp(expected, got, layout.to_bytes) != 0) return "bytes beside the pieces were written";
  return {};
}

using Plan = std::function<std::vector<PackLaunch>(const std::byte* from, std::byte* to)>;

std::string run_both(const Gpu& gpu, const Layout& layout, DType to_dtype, const Plan& plan) {
  HostMemory source(layout.from_bytes, std::byte{0});
  HostMemory expected(layout.to_bytes, kUntouched);
  HostMemory got(layout.to_bytes, kUntouched);
  fill_with_bits(source.data(), layout.from_bytes);
  const DeviceMemory from(gpu, layout.from_bytes);
  const DeviceMemory to(gpu, layout.to_bytes);
  from.write(source.data());
  to.write(got.data());
  launch(gpu, plan(from.at(0), to.at(0)));
  to.read(got.data());
  run_on_host(plan(source.data(), expected.data()));
  return compare(layout, to_dtype, expected.data(), got.data());
}

std::vector<std::size_t> few_pieces() {
  std::vector<std::size_t> counts{70'000};
  for (std::size_t length = 1; length < 40; ++length) counts.push_back(length);
  for (const std::size_t length : {255u, 256u, 257u, 1000u, 4095u, 4096u, 8193u}) counts.push_back(length);
  return counts;
}

std::vector<std::size_t> many_pieces() {
  std::vector<std::size_t> counts;
  for (std::size_t number = 0; number < 300; ++number) counts.push_back(1 + number * 37 % 211);
  return counts;
}

// --- all of it

constexpr std::array kDTypes{DType::kBool,    DType::kUInt8,  DType::kInt8,    DType::kInt16,
                             DType::kInt32,   DType::kInt64,  DType::kFloat16, DType::kBFloat16,
                             DType::kFloat32, DType::kFloat64};

bool is_float(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 ||
         dtype == DType::kFloat64;
}

/// Every kernel of the table, with factors and divisors that matter to it.
std::vector<Packing> all_packings() {
  std::vector<Packing> packings;
  for (const DType from : kDTypes) {
    packings.push_back({from, from});
    for (const DType to : kDTypes) {
      const std::string name = fmt::format("hora_pack_{}_{}", hora::name(from), hora::name(to));
      if (std::ranges::find(kPackKernels, name, &PackKernel::name) == kPackKernels.end()) continue;
      if (from != to) packings.push_back({from, to});
      if (from == DType::kBool) continue;
      packings.push_back({from, to, 1.0 / 3.0});
      if (!is_float(from)) packings.push_back({from, to, 1.0, 3});
    }
  }
  return packings;
}

class Checks {
 public:
  explicit Checks(const Gpu& gpu) : gpu_(gpu) {}

  void run(const std::string& what, std::size_t from_size, DType to,
           const std::function<std::vector<PackLaunch>(std::span<const PackPiece>)>& plan) {
    for (const auto& counts : {few_pieces(), many_pieces()}) {
      const Layout layout = lay_out(counts, from_size, size_of(to));
      const std::string wrong = run_both(gpu_, layout, to, [&](const std::byte* from, std::byte* target) {
        return plan(pieces_of(layout, from, target));
      });
      ++done_;
      if (wrong.empty()) continue;
      ++failed_;
      fmt::print("{{\"check\": \"{}\", \"pieces\": {}, \"wrong\": \"{}\"}}\n", what, counts.size(), wrong);
    }
  }

  [[nodiscard]] int done() const { return done_; }
  [[nodiscard]] int failed() const { return failed_; }

 private:
  const Gpu& gpu_;
  int done_ = 0;
  int failed_ = 0;
};

int check_all(const Gpu& gpu) {
  Checks checks(gpu);
  const std::size_t capacity = gpu.kernels->capacity();
  for (const Packing& packing : all_packings()) {
    checks.run(fmt::format("{} to {}, times {}, by {}", name(packing.from), name(packing.to), packing.scale,
                           packing.divisor),
               size_of(packing.from), packing.to,
               [&](std::span<const PackPiece> pieces) { return plan_launches(pieces, packing, capacity); });
  }
  for (const DType dtype : kDTypes) {
    for (const ReduceOp reduce : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      checks.run(
          fmt::format("fill of {} for {}", name(dtype), name(reduce)), size_of(dtype), dtype,
          [&](std::span<const PackPiece> pieces) { return plan_fills(pieces, dtype, reduce, capacity); });
    }
  }
  fmt::print("{{\"checks\": {}, \"failed\": {}, \"remark\": \"{} of {} right\"}}\n", checks.done(),
             checks.failed(), checks.done() - checks.failed(), checks.done());
  return checks.failed() == 0 ? 0 : 1;
}

// --- speed

constexpr int kRounds = 9;
constexpr int kRepeats = 20;

/// Seconds of one call, the mean over a few that follow each other.
double time_of(const Gpu& gpu, const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  for (int repeat = 0; repeat < kRepeats; ++repeat) call();
  wait(gpu);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / kRepeats;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Contender {
  std::string what;
  std::size_t pieces;
  double bytes;  ///< read and written
  std::function<void()> call;
};

/// Tensors of the same size, with addresses as a framework gives them, moved to one after another.
Contender packing_of(const Gpu& gpu, const DeviceMemory& from, const DeviceMemory& to, std::size_t bytes,
                     std::size_t count, const Packing& packing) {
  const std::size_t from_size = size_of(packing.from);
  const std::size_t to_size = size_of(packing.to);
  const std::size_t elements = bytes / from_size / count / 128 * 128;
  std::vector<PackPiece> pieces;
  for (std::size_t number = 0; number < count; ++number) {
    pieces.push_back({from.at(number * elements * from_size), to.at(number * elements * to_size),
                      static_cast<long long>(elements), 0});
  }
  return {fmt::format("{} to {}, times {}", name(packing.from), name(packing.to), packing.scale), count,
          static_cast<double>(count * elements * (from_size + to_size)),
          [&gpu, pieces, packing] { launch(gpu, plan_launches(pieces, packing, gpu.kernels->capacity())); }};
}

int measure(const Gpu& gpu, std::size_t bytes) {
  const DeviceMemory from(gpu, bytes);
  const DeviceMemory to(gpu, bytes);
  std::vector<Contender> contenders{
      {"device copy", 1, 2.0 * static_cast<double>(bytes), [&] { to.copy_from(from); }}};
  for (const std::size_t count : {std::size_t{1}, std::size_t{100}, std::size_t{1000}}) {
    contenders.push_back(packing_of(gpu, from, to, bytes, count, {DType::kFloat32, DType::kFloat32}));
    contenders.push_back(packing_of(gpu, from, to, bytes, count, {DType::kFloat32, DType::kFloat32, 0.3}));
    contenders.push_back(packing_of(gpu, from, to, bytes, count, {DType::kBFloat16, DType::kBFloat16, 0.3}));
    contenders.push_back(packing_of(gpu, from, to, bytes, count, {DType::kFloat32, DType::kBFloat16}));
  }
  std::vector<std::vector<double>> seconds(contenders.size());
  for (int round = 0; round <= kRounds; ++round) {
    for (std::size_t each = 0; each < contenders.size(); ++each) {
      const double taken = time_of(gpu, contenders[each].call);
      if (round > 0) seconds[each].push_back(taken);  // the first is to warm up
    }
  }
  const double copy = contenders.front().bytes / median(seconds.front());
  double least = 1e9;
  for (std::size_t each = 0; each < contenders.size(); ++each) {
    const double rate = contenders[each].bytes / median(seconds[each]);
    least = std::min(least, rate / copy);
    fmt::print(
        "{{\"what\": \"{}\", \"pieces\": {}, \"bytes\": {}, \"p50_us\": {:.2f}, \"GBps\": {:.1f}, "
        "\"of_copy\": {:.3f}}}\n",
        contenders[each].what, contenders[each].pieces, bytes, 1e6 * median(seconds[each]), rate / 1e9,
        rate / copy);
  }
  fmt::print(
      "{{\"least_of_copy\": {:.3f}, \"remark\": \"{:.0f} % of a device copy at least, {:.0f} GB/s\"}}\n",
      least, 100 * least, copy / 1e9);
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  Gpu gpu = open_gpu();
  fmt::print("{{\"device\": \"{}\", \"compute_capability\": {}, \"kernels\": \"{}\"}}\n",
             gpu.device->pci_bus_id(), gpu.device->compute_capability(), gpu.reason);
  const DeviceScope scope(*gpu.device);
  const bool is_check = arguments == std::vector<std::string>{"check"};
  if (!is_check && (arguments.size() != 2 || arguments[0] != "bandwidth"))
    throw std::runtime_error("usage: hora_gpu_packing check | bandwidth BYTES");
  const int status = is_check ? check_all(gpu) : measure(gpu, std::stoull(arguments[1]));
  gpu.kernels.reset();  // while the context is current
  return status;
}

}  // namespace
}  // namespace hora::cuda

int main(int argc, char** argv) {
  try {
    return hora::cuda::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
