#include "backends/cuda/packing.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "collectives/convert.h"
#include "collectives/reduce.h"

namespace hora::cuda {
namespace {

constexpr long long kMaxBlocks = std::numeric_limits<int>::max();

std::size_t kernel_named(std::string_view name) {
  const auto row = std::ranges::find(kPackKernels, name, &PackKernel::name);
  if (row == kPackKernels.end()) raise(ErrorKind::kSessionFailed, "there is no GPU kernel {}", name);
  return static_cast<std::size_t>(row - kPackKernels.begin());
}

bool is_one_byte_of_truth(DType dtype) {
  return dtype == DType::kBool || dtype == DType::kUInt8;
}

/// Whether the bytes stay as they are. What was reduced as uint8 is a bool again.
bool is_copy(const Packing& packing) {
  if (packing.scale != 1.0 || packing.divisor != 1) return false;
  return packing.from == packing.to || (is_one_byte_of_truth(packing.from) && packing.to == DType::kBool);
}

/// Collects pieces and closes a launch when the next piece does not fit.
class Planner {
 public:
  Planner(std::size_t kernel, double scale, std::int64_t divisor, std::size_t capacity)
      : kernel_(kernel), scale_(scale), divisor_(divisor), capacity_(static_cast<long long>(capacity)) {
    assert(capacity > 0 && capacity <= LargePackArguments::kMaxPieces);
    const PackKernel& row = kPackKernels[kernel];
    block_elements_ = kPackBlockBytes / static_cast<long long>(std::max(row.from_bytes, row.to_bytes));
  }

  void add(const void* from, void* to, long long count) {
    if (count <= 0) return;
    const long long blocks = (count - 1) / block_elements_ + 1;
    assert(blocks <= kMaxBlocks);
    if (launches_.empty() || launches_.back().arguments->piece_count == capacity_ ||
        launches_.back().blocks + blocks > kMaxBlocks)
      begin_launch();
    PackLaunch& launch = launches_.back();
    launch.arguments->pieces[launch.arguments->piece_count++] = {from, to, count, launch.blocks};
    launch.blocks += static_cast<unsigned>(blocks);
  }

  std::vector<PackLaunch> take() { return std::move(launches_); }

 private:
  void begin_launch() {
    // Most of the array stays unused: it is not worth clearing.
    auto arguments = std::make_unique_for_overwrite<LargePackArguments>();
    arguments->scale = scale_;
    arguments->divisor = divisor_;
    arguments->piece_count = 0;
    launches_.push_back({kernel_, 0, std::move(arguments)});
  }

  std::size_t kernel_;
  double scale_;
  std::int64_t divisor_;
  long long capacity_;
  long long block_elements_;
  std::vector<PackLaunch> launches_;
};

void check_alignment(const void* address, std::size_t bytes, std::string_view kernel) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) {
    raise(ErrorKind::kInvalidArgument,
          "a tensor at {} is not aligned to its elements of {} bytes, as {} needs", address, bytes, kernel);
  }
}

/// One element of the identity, repeated to 8 bytes.
const void* identity_pattern(DType dtype, ReduceOp reduce) {
  std::array<std::byte, sizeof(void*)> pattern;
  static_assert(sizeof(pattern) == 8);
  if (is_half(dtype)) {
    std::array<float, sizeof(pattern) / 2> wide;
    fill_identity(wide.data(), wide.size(), DType::kFloat32, reduce);
    narrow(wide.data(), dtype, pattern.data(), wide.size(), 1.0);
  } else {
    fill_identity(pattern.data(), sizeof(pattern) / size_of(dtype), dtype, reduce);
  }
  const void* bits;
  std::memcpy(&bits, pattern.data(), sizeof(bits));
  return bits;
}

}  // namespace

std::size_t pack_kernel(const Packing& packing) {
  if (is_copy(packing)) return kernel_named("hora_copy");
  return kernel_named(fmt::format("hora_pack_{}_{}", name(packing.from), name(packing.to)));
}

std::vector<PackLaunch> plan_launches(std::span<const PackPiece> pieces, const Packing& packing,
                                      std::size_t capacity) {
  const bool copies = is_copy(packing);
  const std::size_t kernel = pack_kernel(packing);
  const PackKernel& row = kPackKernels[kernel];
  const auto counted_per_element = copies ? static_cast<long long>(size_of(packing.from)) : 1;
  Planner planner(kernel, packing.scale, packing.divisor, capacity);
  for (const PackPiece& piece : pieces) {
    if (piece.count == 0) continue;
    check_alignment(piece.from, row.from_bytes, row.name);
    check_alignment(piece.to, row.to_bytes, row.name);
    planner.add(piece.from, piece.to, piece.count * counted_per_element);
  }
  return planner.take();
}

std::vector<PackLaunch> plan_fills(std::span<const PackPiece> pieces, DType dtype, ReduceOp reduce,
                                   std::size_t capacity) {
  Planner planner(kernel_named("hora_fill"), 1.0, 1, capacity);
  const void* pattern = identity_pattern(dtype, reduce);
  for (const PackPiece& piece : pieces)
    planner.add(pattern, piece.to, piece.count * static_cast<long long>(size_of(dtype)));
  return planner.take();
}

}  // namespace hora::cuda
