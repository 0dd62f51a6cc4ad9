#include "collectives/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace hora {
namespace {

// Below this a reduction takes one phase: waiting costs more than reading.
constexpr std::uint64_t kSmall = 32 * 1024;
// Above this two phases always win.
constexpr std::uint64_t kLarge = 1024 * 1024;
// Up to this few messages matter more than few bytes where ranks share no memory.
constexpr std::uint64_t kShortAcross = 64 * 1024;
// Every second batch tries a candidate until each has been tried once, then every fourth until they have been
// tried enough, then one in so many.
constexpr std::uint64_t kFirstEvery = 2;
constexpr std::uint64_t kEarlyEvery = 4;
constexpr std::uint64_t kEarlyTries = 4;
constexpr std::uint64_t kLaterEvery = 64;

std::string describe(const Route& route) {
  return fmt::format("{}, {} stores, blocks of {} KiB",
                     route.reduction == Route::Reduction::kOnePhase ? "one phase" : "two phases",
                     route.streaming ? "streaming" : "ordinary", route.block_bytes / 1024);
}

}  // namespace

Duration RouteChooser::Candidate::best() const {
  const auto known = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(tries, kRecent));
  return known == 0 ? Duration::max() : *std::min_element(recent.begin(), recent.begin() + known);
}

/// 0 where a dimension is not agreed.
std::uint64_t RouteChooser::bytes_of(const Batch& batch) {
  std::uint64_t bytes = 0;
  for (const BatchEntry& entry : batch.entries) {
    for (const TensorType& tensor : entry.signature->tensors) {
      if (std::ranges::find(tensor.shape, Signature::kRagged) != tensor.shape.end()) return 0;
      bytes += tensor.bytes();
    }
  }
  return bytes;
}

RouteChooser::Key RouteChooser::key_of(const Batch& batch) {
  return {batch.signature().op, std::bit_width(std::min(bytes_of(batch), kLarge))};
}

std::vector<RouteChooser::Candidate> RouteChooser::candidates(OpKind op, std::uint64_t bytes) const {
  std::vector<Route::Reduction> reductions;
  if (op == OpKind::kAllreduce && bytes < kLarge) reductions.push_back(Route::Reduction::kOnePhase);
  if (op != OpKind::kAllreduce || bytes >= kSmall) reductions.push_back(Route::Reduction::kTwoPhase);
  if (fixed_.one_phase)
    reductions = {*fixed_.one_phase ? Route::Reduction::kOnePhase : Route::Reduction::kTwoPhase};
  std::vector<bool> streaming{false};
  if (bytes >= kSmall) streaming.push_back(true);
  if (fixed_.streaming) streaming = {*fixed_.streaming};
  std::vector<std::uint32_t> blocks{256 * 1024};
  if (bytes > 512 * 1024) blocks = {256 * 1024, 128 * 1024, 512 * 1024};
  if (fixed_.block_bytes != 0) blocks = {static_cast<std::uint32_t>(fixed_.block_bytes)};

  const bool doubles = fixed_.doubling.value_or(bytes < kShortAcross);
  const Route::Across across = doubles ? Route::Across::kDoubling : Route::Across::kRing;

  std::vector<Candidate> all;
  for (const Route::Reduction reduction : reductions) {
    for (const bool streams : streaming) {
      for (const std::uint32_t block : blocks)
        all.push_back({{reduction, streams, block, across, fixed_.across_bytes}, {}, 0});
    }
  }
  return all;
}

Route RouteChooser::choose(const Batch& batch) {
  if (!batch.error.empty()) return {};
  Kind& kind = kinds_[key_of(batch)];
  if (kind.candidates.empty()) kind.candidates = candidates(batch.signature().op, bytes_of(batch));
  const std::uint64_t first = kind.candidates.size() * kFirstEvery;
  const std::uint64_t early = first + kind.candidates.size() * kEarlyTries * kEarlyEvery;
  const std::uint64_t every = kind.batches < first   ? kFirstEvery
                              : kind.batches < early ? kEarlyEvery
                                                     : kLaterEvery;
  if (++kind.batches % every != 0) return kind.candidates[kind.best].route;
  kind.next_try = (kind.next_try + 1) % kind.candidates.size();
  return kind.candidates[kind.next_try].route;
}

std::string RouteChooser::learn(const Batch& batch, Duration time) {
  const auto known = kinds_.find(key_of(batch));
  if (known == kinds_.end() || known->second.candidates.size() < 2) return {};
  Kind& kind = known->second;
  const auto tried = std::ranges::find(kind.candidates, batch.route, &Candidate::route);
  if (tried == kind.candidates.end()) return {};
  // Large sizes are compared by their speed.
  const auto bytes = static_cast<Duration::rep>(std::max(bytes_of(batch), kLarge));
  tried->recent[tried->tries++ % kRecent] = time * static_cast<Duration::rep>(kLarge) / bytes;
  const auto best = std::ranges::min_element(kind.candidates, {}, &Candidate::best);
  const auto number = static_cast<std::size_t>(best - kind.candidates.begin());
  // One that is hardly better is no news.
  const Duration before = kind.candidates[kind.best].best();
  if (number == kind.best || (before != Duration::max() && best->best() > before * 19 / 20)) return {};
  kind.best = number;
  const auto microseconds = [](Duration duration) {
    return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
  };
  const std::uint64_t most = std::uint64_t{1} << known->first.second;
  const std::string sizes = most > kLarge ? "1 MiB and more" : fmt::format("up to {} bytes", most);
  return fmt::format("{} of {}: {} ({} us{})", name(batch.signature().op), sizes, describe(best->route),
                     microseconds(best->best()), most > kLarge ? " for each MiB" : "");
}

}  // namespace hora
