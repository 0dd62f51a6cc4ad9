// How fast one core reduces: `reduce_into` for each dtype and operation, the conversions that halves pass
// through before and after it, `reduce_all` with several sources and both kinds of stores, and `copy`. Bytes
// per second count one tensor, as in "bytes reduced"; memory sees every source and the result. One size stays
// in the cache, one does not.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "collectives/convert.h"
#include "collectives/kernels.h"
#include "collectives/reduce.h"
#include "core/op.h"

namespace hora {
namespace {

constexpr std::size_t kSizes[] = {std::size_t{64} << 10, std::size_t{16} << 20};
constexpr DType kReduced[] = {DType::kBool,  DType::kUInt8,   DType::kInt16,  DType::kInt32,
                              DType::kInt64, DType::kFloat32, DType::kFloat64};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};
constexpr DType kHalves[] = {DType::kFloat16, DType::kBFloat16};
constexpr DType kSummed[] = {DType::kInt32, DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                             DType::kFloat64};
constexpr std::size_t kSourceCounts[] = {2, 4};
constexpr Store kStores[] = {Store::kCached, Store::kStreaming};

constexpr const char* name(Store store) {
  return store == Store::kCached ? "cached" : "streaming";
}

/// Memory as tensors have it: from a cache line on.
class Tensor {
 public:
  explicit Tensor(std::size_t bytes) : memory_(bytes + 64) {}
  [[nodiscard]] std::byte* data() {
    return memory_.data() + (64 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 64) % 64;
  }

 private:
  std::vector<std::byte> memory_;
};

void set_bytes(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(bytes));
}

void reduce(benchmark::State& state, DType dtype, ReduceOp op, std::size_t bytes) {
  std::vector<std::byte> accumulator(bytes);  // zeros, which stay zeros under every operation
  std::vector<std::byte> operand(bytes);
  for (auto _ : state) {
    reduce_into(accumulator.data(), operand.data(), bytes / size_of(dtype), dtype, op);
    benchmark::ClobberMemory();
  }
  set_bytes(state, bytes);
}

void convert(benchmark::State& state, DType half, bool widening, std::size_t bytes) {
  const std::size_t count = bytes / size_of(half);
  std::vector<std::byte> halves(bytes);
  std::vector<float> floats(count);
  for (auto _ : state) {
    if (widening) {
      widen(halves.data(), half, floats.data(), count, 1.0);
    } else {
      narrow(floats.data(), half, halves.data(), count, 1.0);
    }
    benchmark::ClobberMemory();
  }
  set_bytes(state, bytes);
}

void sum_all(benchmark::State& state, DType dtype, std::size_t number, Store store, std::size_t bytes) {
  std::vector<Tensor> tensors(number, Tensor(bytes));
  std::vector<const std::byte*> sources;
  for (Tensor& tensor : tensors) sources.push_back(tensor.data());
  Tensor sums(bytes);
  const Destination destination{sums.data(), store};
  for (auto _ : state) {
    reduce_all(sources, {&destination, 1}, bytes / size_of(dtype), {dtype, ReduceOp::kSum});
    benchmark::ClobberMemory();
  }
  set_bytes(state, bytes);
}

void copy_tensor(benchmark::State& state, Store store, std::size_t bytes) {
  Tensor source(bytes);
  Tensor destination(bytes);
  for (auto _ : state) {
    copy(source.data(), destination.data(), bytes, store);
    benchmark::ClobberMemory();
  }
  set_bytes(state, bytes);
}

void register_vector_passes(std::size_t bytes) {
  for (const Store store : kStores) {
    for (const std::size_t number : kSourceCounts) {
      for (const DType dtype : kSummed) {
        const std::string title = fmt::format("sum_of_{}/{}/{}/{}", number, name(store), name(dtype), bytes);
        benchmark::RegisterBenchmark(title.c_str(), sum_all, dtype, number, store, bytes);
      }
    }
    const std::string title = fmt::format("copy/{}/{}", name(store), bytes);
    benchmark::RegisterBenchmark(title.c_str(), copy_tensor, store, bytes);
  }
}

void register_all() {
  for (const std::size_t bytes : kSizes) {
    for (const ReduceOp op : kOps) {
      for (const DType dtype : kReduced) {
        const std::string title = fmt::format("reduce/{}/{}/{}", name(op), name(dtype), bytes);
        benchmark::RegisterBenchmark(title.c_str(), reduce, dtype, op, bytes);
      }
    }
    for (const DType half : kHalves) {
      const std::string title = fmt::format("{}/{}", name(half), bytes);
      benchmark::RegisterBenchmark(("widen/" + title).c_str(), convert, half, true, bytes);
      benchmark::RegisterBenchmark(("narrow/" + title).c_str(), convert, half, false, bytes);
    }
    register_vector_passes(bytes);
  }
}

[[maybe_unused]] const bool kRegistered = (register_all(), true);

}  // namespace
}  // namespace hora
