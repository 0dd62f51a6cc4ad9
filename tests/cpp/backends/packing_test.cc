// What is planned for the packing kernels, and what they do: their code runs here thread by thread and is
// compared bit for bit with what the host's collectives make of the same elements.

#include "backends/cuda/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/half.h"
#include "collectives/convert.h"
#include "collectives/kernels.h"
#include "collectives/reduce.h"
#include "stand_ins/pack_kernels.h"

namespace hora::cuda {
namespace {

constexpr std::size_t kFew = SmallPackArguments::kMaxPieces;
constexpr std::size_t kMany = LargePackArguments::kMaxPieces;

// --- running what was planned

void* in_place(const void* pointer, std::size_t) {
  return const_cast<void*>(pointer);
}

void run(const std::vector<PackLaunch>& launches) {
  const auto& kernels = stand_ins::HostKernels<in_place>::kTable;
  for (const PackLaunch& launch : launches) {
    std::string name(kPackKernels[launch.kernel].name);
    if (launch.is_large()) name += "_large";
    const auto* kernel = std::ranges::find(kernels, name, &stand_ins::HostKernel::name);
    ASSERT_NE(kernel, kernels.end()) << name;
    void* parameter = launch.arguments.get();
    kernel->function(launch.blocks, kPackThreads, &parameter);
  }
}

/// Memory whose first byte lies `past` bytes past a multiple of 64, between bytes that must not change.
class Guarded {
 public:
  Guarded(std::size_t bytes, std::size_t past) : bytes_(bytes), memory_(bytes + 3 * kGuard, kUntouched) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    begin_ = kGuard + (kGuard - address % kGuard) % kGuard + past;
  }

  [[nodiscard]] std::byte* data() { return memory_.data() + begin_; }
  [[nodiscard]] Bytes content() const {
    const auto first = memory_.begin() + static_cast<std::ptrdiff_t>(begin_);
    return {first, first + static_cast<std::ptrdiff_t>(bytes_)};
  }
  [[nodiscard]] bool is_intact() const {
    const auto untouched = [](std::byte byte) { return byte == kUntouched; };
    const auto first = memory_.begin() + static_cast<std::ptrdiff_t>(begin_);
    return std::all_of(memory_.begin(), first, untouched) &&
           std::all_of(first + static_cast<std::ptrdiff_t>(bytes_), memory_.end(), untouched);
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kUntouched{0xa5};

  std::size_t bytes_;
  std::size_t begin_ = 0;
  Bytes memory_;
};

/// All pieces' elements one after another, each piece with the next combination of alignments.
Bytes packed(const Bytes& source, const Packing& packing, const std::vector<std::size_t>& counts,
             std::size_t capacity = kFew, std::size_t unit_from = 0, std::size_t unit_to = 0) {
  const std::size_t from_bytes = size_of(packing.from);
  const std::size_t to_bytes = size_of(packing.to);
  if (unit_from == 0) unit_from = from_bytes;
  if (unit_to == 0) unit_to = to_bytes;
  std::vector<Guarded> inputs;
  std::vector<Guarded> outputs;
  std::vector<PackPiece> pieces;
  std::size_t at = 0;
  for (const std::size_t count : counts) {
    const std::size_t number = pieces.size();
    inputs.emplace_back(count * from_bytes, number % 5 * unit_from % 16);
    outputs.emplace_back(count * to_bytes, number / 5 % 5 * unit_to % 16);
    std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(at), count * from_bytes, inputs.back().data());
    pieces.push_back({inputs.back().data(), outputs.back().data(), static_cast<long long>(count), -1});
    at += count * from_bytes;
  }
  EXPECT_EQ(at, source.size());
  run(plan_launches(pieces, packing, capacity));
  Bytes result;
  for (const Guarded& output : outputs) {
    EXPECT_TRUE(output.is_intact());
    const Bytes content = output.content();
    result.insert(result.end(), content.begin(), content.end());
  }
  return result;
}

// --- elements

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Bytes random_bytes(std::size_t count) {
  std::mt19937_64 generator(count);
  Bytes bytes(count);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(generator()); });
  return bytes;
}

/// Numbers at which rounding, overflow or truncation change.
template <typename T>
std::vector<T> edges() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values{T{0}, T{1}, T{2}, T{3}, T{7}, Limits::max(), Limits::lowest(), Limits::min()};
  if constexpr (std::is_floating_point_v<T>) {
    values.insert(values.end(), {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                                 Limits::denorm_min(), -T{0}, Limits::min() / 2});
    for (const T magnitude : {T(65504), T(65519.9), T(65520), T(0x1p-24), T(0x1p-25), T(0x1.8p-24),
                              T(0x1p-14), T(3.3895314e38), T(1.00048828125), T(1.0039062), T(1.01171875)}) {
      for (const T near :
           {magnitude, std::nextafter(magnitude, Limits::infinity()), std::nextafter(magnitude, T{0})})
        values.insert(values.end(), {near, -near});
    }
  } else {
    for (int distance = 1; distance < 5; ++distance) {
      values.push_back(static_cast<T>(Limits::max() - distance));
      values.push_back(static_cast<T>(Limits::lowest() + distance));
    }
  }
  return values;
}

/// Enough for several blocks: all bit patterns of types of up to 2 bytes, else edges and random patterns.
Bytes elements(DType dtype) {
  constexpr std::size_t kCount = 70'000;
  Bytes bytes = random_bytes(kCount * size_of(dtype));
  const auto begin_with = [&](const Bytes& first) { std::ranges::copy(first, bytes.begin()); };
  std::vector<std::uint16_t> patterns(65'536);
  for (std::size_t at = 0; at < patterns.size(); ++at) patterns[at] = static_cast<std::uint16_t>(at);
  if (size_of(dtype) == 2) begin_with(bytes_of(patterns));
  if (dtype == DType::kInt32) begin_with(bytes_of(edges<std::int32_t>()));
  if (dtype == DType::kInt64) begin_with(bytes_of(edges<std::int64_t>()));
  if (dtype == DType::kFloat32) begin_with(bytes_of(edges<float>()));
  if (dtype == DType::kFloat64) begin_with(bytes_of(edges<double>()));
  return bytes;
}

// --- what the host makes of them

template <typename From, typename To>
Bytes cast(const Bytes& source) {
  const std::vector<From> values = values_of<From>(source);
  std::vector<To> result;
  for (const From value : values) result.push_back(static_cast<To>(value));
  return bytes_of(result);
}

Bytes widened(const Bytes& source, DType dtype, double factor) {
  const std::size_t count = source.size() / size_of(dtype);
  Bytes result(count * size_of(accumulation_type(dtype)));
  widen(source.data(), dtype, result.data(), count, factor);
  return result;
}

Bytes narrowed(const Bytes& source, DType dtype, double factor) {
  const std::size_t count = source.size() / size_of(accumulation_type(dtype));
  Bytes result(count * size_of(dtype));
  narrow(source.data(), dtype, result.data(), count, factor);
  return result;
}

Bytes finished(Bytes sums, DType dtype, const Packing& packing) {
  const Reduction reduction{dtype, ReduceOp::kSum, 1.0, packing.scale, packing.divisor};
  finish_sums(sums.data(), sums.data(), sums.size() / size_of(dtype), reduction);
  return sums;
}

Bytes expected_integers(const Bytes& source, const Packing& packing) {
  if (packing.from == packing.to) return finished(source, packing.from, packing);
  if (packing.from == DType::kInt16)
    return cast<std::int16_t, std::int32_t>(finished(source, DType::kInt16, packing));
  return finished(cast<std::int32_t, std::int16_t>(source), DType::kInt16, packing);
}

Bytes expected(const Bytes& source, const Packing& packing) {
  const auto [from, to, scale, divisor] = packing;
  if (!info(from).is_floating) return expected_integers(source, packing);
  if (from == to && scale == 1.0) return source;
  if (from == DType::kFloat64 && is_half(to))
    return narrowed(cast<double, float>(widened(source, from, scale)), to, 1.0);
  if (is_half(from) && to == DType::kFloat64)
    return widened(cast<float, double>(widened(source, from, 1.0)), to, scale);
  if (is_half(to)) {
    return is_half(from) ? narrowed(widened(source, from, scale), to, 1.0) : narrowed(source, to, scale);
  }
  return widened(source, from, scale);
}

/// Empty when they are equal.
std::string difference(const Bytes& source, const Bytes& ours, const Bytes& theirs, const Packing& packing) {
  if (ours == theirs) return {};
  if (ours.size() != theirs.size()) return fmt::format("{} bytes, not {}", ours.size(), theirs.size());
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(ours, theirs).in1 - ours.begin());
  const std::size_t element = at / size_of(packing.to);
  const auto bits = [element](const Bytes& bytes, DType dtype) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + element * size_of(dtype), size_of(dtype));
    return value;
  };
  return fmt::format("element {} of {} x {} / {} to {}: {:x} became {:x}, not {:x}", element,
                     name(packing.from), packing.scale, packing.divisor, name(packing.to),
                     bits(source, packing.from), bits(ours, packing.to), bits(theirs, packing.to));
}

void expect_as_on_the_host(const Packing& packing) {
  const Bytes source = elements(packing.from);
  const std::size_t count = source.size() / size_of(packing.from);
  const Bytes ours = packed(source, packing, {count});
  EXPECT_EQ(difference(source, ours, expected(source, packing), packing), "");
}

constexpr std::pair<DType, DType> kFloatPairs[] = {
    {DType::kFloat16, DType::kFloat16},  {DType::kBFloat16, DType::kBFloat16},
    {DType::kFloat32, DType::kFloat32},  {DType::kFloat64, DType::kFloat64},
    {DType::kFloat32, DType::kFloat16},  {DType::kFloat16, DType::kFloat32},
    {DType::kFloat32, DType::kBFloat16}, {DType::kBFloat16, DType::kFloat32},
    {DType::kFloat64, DType::kFloat16},  {DType::kFloat16, DType::kFloat64},
    {DType::kFloat64, DType::kBFloat16}, {DType::kBFloat16, DType::kFloat64},
};
constexpr std::pair<DType, DType> kIntegerPairs[] = {
    {DType::kUInt8, DType::kUInt8}, {DType::kInt8, DType::kInt8},   {DType::kInt16, DType::kInt16},
    {DType::kInt32, DType::kInt32}, {DType::kInt64, DType::kInt64}, {DType::kInt16, DType::kInt32},
    {DType::kInt32, DType::kInt16},
};

// --- planning

std::vector<PackPiece> pieces_of(std::size_t number, long long count) {
  return {number, PackPiece{nullptr, nullptr, count, 0}};
}

constexpr Packing kScaledFloats{DType::kFloat32, DType::kFloat32, 0.5};
constexpr long long kBlock = kPackBlockBytes / 4;  // of float32

TEST(PlanLaunches, nothing_is_launched_for_no_elements) {
  EXPECT_TRUE(plan_launches({}, kScaledFloats, kFew).empty());
  EXPECT_TRUE(plan_launches(pieces_of(300, 0), kScaledFloats, kFew).empty());
  EXPECT_TRUE(plan_fills(pieces_of(3, 0), DType::kInt8, ReduceOp::kMax, kFew).empty());
}

TEST(PlanLaunches, a_block_is_added_for_each_begun_share) {
  const std::vector<std::pair<long long, unsigned>> blocks{
      {1, 1}, {kBlock - 1, 1}, {kBlock, 1}, {kBlock + 1, 2}, {2 * kBlock, 2}, {2 * kBlock + 1, 3}};
  for (const auto& [count, expected_blocks] : blocks)
    EXPECT_EQ(plan_launches(pieces_of(1, count), kScaledFloats, kFew).at(0).blocks, expected_blocks) << count;
}

TEST(PlanLaunches, pieces_follow_each_other_and_empty_ones_are_left_out) {
  std::vector<PackPiece> pieces = pieces_of(4, kBlock + 1);
  pieces[1].count = 0;
  const auto launches = plan_launches(pieces, kScaledFloats, kFew);
  ASSERT_EQ(launches.size(), 1u);
  const LargePackArguments& arguments = *launches[0].arguments;
  ASSERT_EQ(arguments.piece_count, 3);
  EXPECT_EQ(arguments.scale, 0.5);
  for (int piece = 0; piece < 3; ++piece) EXPECT_EQ(arguments.pieces[piece].first_block, 2 * piece);
  EXPECT_EQ(launches[0].blocks, 6u);
}

TEST(PlanLaunches, more_pieces_than_fit_take_several_launches) {
  const auto sizes = [](std::size_t pieces, std::size_t capacity) {
    std::vector<long long> each;
    for (const PackLaunch& launch : plan_launches(pieces_of(pieces, 5), kScaledFloats, capacity))
      each.push_back(launch.arguments->piece_count);
    return each;
  };
  EXPECT_EQ(sizes(127, kFew), std::vector<long long>({127}));
  EXPECT_EQ(sizes(128, kFew), std::vector<long long>({127, 1}));
  EXPECT_EQ(sizes(1022, kMany), std::vector<long long>({1022}));
  EXPECT_EQ(sizes(5000, kMany), std::vector<long long>({1022, 1022, 1022, 1022, 912}));
}

TEST(PlanLaunches, few_pieces_go_to_the_kernel_with_small_parameters) {
  EXPECT_FALSE(plan_launches(pieces_of(127, 5), kScaledFloats, kMany).at(0).is_large());
  EXPECT_TRUE(plan_launches(pieces_of(128, 5), kScaledFloats, kMany).at(0).is_large());
}

TEST(PlanLaunches, counts_of_more_than_32_bits_are_kept) {
  const long long count = (1ll << 40) + 1;
  const auto launches = plan_launches(pieces_of(2, count), kScaledFloats, kFew);
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].arguments->pieces[1].count, count);
  EXPECT_EQ(launches[0].blocks, 2 * ((1u << 27) + 1));
}

TEST(PlanLaunches, a_grid_has_no_more_blocks_than_a_device_takes) {
  const auto launches = plan_launches(pieces_of(3, kBlock << 30), kScaledFloats, kFew);
  ASSERT_EQ(launches.size(), 3u);
  for (const PackLaunch& launch : launches) EXPECT_EQ(launch.blocks, 1u << 30);
}

TEST(PlanLaunches, elements_that_change_must_be_aligned) {
  alignas(8) std::byte memory[16];
  const std::vector<PackPiece> pieces{{memory + 2, memory, 1, 0}};
  EXPECT_THROW((void)plan_launches(pieces, kScaledFloats, kFew), Error);
  EXPECT_NO_THROW((void)plan_launches(pieces, {DType::kFloat32, DType::kFloat32}, kFew));
}

TEST(PackKernel, values_that_stay_are_copied_as_bytes) {
  for (const DTypeInfo& each : kDTypes) {
    const auto dtype = static_cast<DType>(&each - kDTypes.data());
    EXPECT_EQ(kPackKernels[pack_kernel({dtype, dtype})].name, "hora_copy");
  }
  EXPECT_EQ(kPackKernels[pack_kernel({DType::kUInt8, DType::kBool})].name, "hora_copy");
  EXPECT_EQ(
      plan_launches(pieces_of(1, 5), {DType::kInt64, DType::kInt64}, kFew)[0].arguments->pieces[0].count, 40);
}

TEST(PackKernel, its_name_says_what_it_takes_and_makes) {
  EXPECT_EQ(kPackKernels[pack_kernel({DType::kBool, DType::kUInt8})].name, "hora_pack_bool_uint8");
  EXPECT_EQ(kPackKernels[pack_kernel({DType::kInt32, DType::kInt32, 1.0, 3})].name, "hora_pack_int32_int32");
  EXPECT_EQ(kPackKernels[pack_kernel({DType::kFloat32, DType::kBFloat16})].name,
            "hora_pack_float32_bfloat16");
  EXPECT_THROW((void)pack_kernel({DType::kFloat16, DType::kBFloat16}), Error);
}

TEST(PackKernel, its_row_has_the_sizes_of_its_elements) {
  for (const auto& pairs : {std::span<const std::pair<DType, DType>>(kFloatPairs),
                            std::span<const std::pair<DType, DType>>(kIntegerPairs)}) {
    for (const auto& [from, to] : pairs) {
      const PackKernel& row = kPackKernels[pack_kernel({from, to, 0.5})];
      EXPECT_EQ(row.from_bytes, size_of(from)) << row.name;
      EXPECT_EQ(row.to_bytes, size_of(to)) << row.name;
    }
  }
}

// --- kernels

TEST(PackKernels, floats_become_what_they_become_on_the_host) {
  for (const auto& [from, to] : kFloatPairs) {
    for (const double scale : {1.0, 1.0 / 3, 0.5, -3.0, 1e-30, 1e30, std::numeric_limits<double>::infinity()})
      expect_as_on_the_host({from, to, scale});
  }
}

TEST(PackKernels, integers_become_what_they_become_on_the_host) {
  for (const auto& [from, to] : kIntegerPairs) {
    for (const double scale : {1.0, 0.3, -2.5, 1e20, 0.0}) {
      for (const std::int64_t divisor : {1ll, 2ll, 3ll, 127ll, 4096ll, 1ll << 31, 1ll << 40})
        expect_as_on_the_host({from, to, scale, divisor});
    }
  }
}

TEST(PackKernels, bfloat16_rounds_like_the_host) {
  using OurBFloat16 = pack::Element<pack::BFloat16>;
  for (const float value : values_of<float>(elements(DType::kFloat32)))
    EXPECT_EQ(OurBFloat16::narrow(value).bits, to_bfloat16(value).bits) << value;
}

TEST(PackKernels, whatever_is_not_zero_becomes_true) {
  const Bytes source = elements(DType::kUInt8);
  Bytes truths;
  for (const std::byte each : source) truths.push_back(std::byte{each != std::byte{0}});
  EXPECT_EQ(packed(source, {DType::kBool, DType::kUInt8}, {source.size()}), truths);
}

/// Every combination of alignments with sizes around those of vectors, threads and blocks.
std::vector<std::size_t> awkward_counts(std::size_t block) {
  std::vector<std::size_t> counts;
  for (const std::size_t count : {std::size_t{1}, std::size_t{3}, std::size_t{16}, std::size_t{17},
                                  std::size_t{4097}, block - 1, block, block + 1})
    counts.insert(counts.end(), 25, count);
  return counts;
}

TEST(PackKernels, pieces_of_all_sizes_and_alignments_are_moved) {
  for (const Packing& packing : {Packing{DType::kFloat32, DType::kFloat16},
                                 {DType::kBFloat16, DType::kFloat64},
                                 {DType::kFloat64, DType::kFloat64, 0.5},
                                 {DType::kInt8, DType::kInt8, 1.0, 3},
                                 {DType::kInt32, DType::kInt16},
                                 {DType::kFloat32, DType::kFloat32}}) {
    const std::size_t larger = std::max(size_of(packing.from), size_of(packing.to));
    const auto counts = awkward_counts(kPackBlockBytes / larger);
    std::size_t count = 0;
    for (const std::size_t each : counts) count += each;
    const Bytes source = random_bytes(count * size_of(packing.from));
    EXPECT_EQ(difference(source, packed(source, packing, counts), expected(source, packing), packing), "");
    EXPECT_EQ(difference(source, packed(source, packing, counts, kMany), expected(source, packing), packing),
              "");
  }
}

TEST(PackKernels, bytes_are_copied_between_any_addresses) {
  const auto counts = awkward_counts(kPackBlockBytes);
  std::size_t count = 0;
  for (const std::size_t each : counts) count += each;
  const Bytes source = random_bytes(count);
  for (const std::size_t unit : {1u, 2u, 4u, 8u})
    EXPECT_EQ(packed(source, {DType::kUInt8, DType::kUInt8}, counts, kFew, unit, 1), source);
  EXPECT_EQ(packed(source, {DType::kUInt8, DType::kUInt8}, counts, kFew, 4, 4), source);
}

TEST(PackKernels, thousands_of_pieces_are_moved) {
  std::vector<std::size_t> counts;
  for (std::size_t piece = 0; piece < 4000; ++piece) counts.push_back(piece % 37);
  std::size_t count = 0;
  for (const std::size_t each : counts) count += each;
  const Packing packing{DType::kFloat32, DType::kBFloat16, 0.25};
  const Bytes source = random_bytes(count * 4);
  for (const std::size_t capacity : {kFew, kMany}) {
    EXPECT_EQ(
        difference(source, packed(source, packing, counts, capacity), expected(source, packing), packing),
        "");
  }
}

TEST(PackKernels, elements_are_scaled_in_place) {
  std::vector<float> values(50'000, 3.0f);
  const std::vector<PackPiece> pieces{
      {values.data() + 1, values.data() + 1, static_cast<long long>(values.size() - 1), 0}};
  run(plan_launches(pieces, kScaledFloats, kFew));
  EXPECT_EQ(values.front(), 3.0f);
  EXPECT_TRUE(std::all_of(values.begin() + 1, values.end(), [](float each) { return each == 1.5f; }));
}

/// The identity as the host contributes it.
Bytes identities(DType dtype, ReduceOp reduce, std::size_t count) {
  const DType wide = accumulation_type(dtype);
  Bytes sums(count * size_of(wide));
  fill_identity(sums.data(), count, wide, reduce);
  return narrowed(sums, dtype, 1.0);
}

TEST(PackKernels, fills_with_what_changes_nothing) {
  for (const DTypeInfo& each : kDTypes) {
    const auto dtype = static_cast<DType>(&each - kDTypes.data());
    for (const ReduceOp reduce : {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax}) {
      for (const std::size_t count : {1u, 5u, 31u, 5000u, 40'000u}) {
        for (std::size_t past = 0; past < 16; past += each.size) {
          Guarded memory(count * each.size, past);
          const std::vector<PackPiece> pieces{{nullptr, memory.data(), static_cast<long long>(count), 0}};
          run(plan_fills(pieces, dtype, reduce, kFew));
          EXPECT_TRUE(memory.is_intact());
          ASSERT_EQ(memory.content(), identities(dtype, reduce, count)) << each.name << ' ' << name(reduce);
        }
      }
    }
  }
}

}  // namespace
}  // namespace hora::cuda
