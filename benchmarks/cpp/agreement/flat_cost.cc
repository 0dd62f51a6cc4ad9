#include <algorithm>
#include <bit>
#include <cmath>

#include "agreement/cost.h"

namespace hora::benchmarks {
namespace {

constexpr double kUsPerMs = 1000;
constexpr std::uint64_t kLengthBytes = 4;
constexpr std::uint64_t kStatusBits = 4;
constexpr std::uint64_t kWordBits = 64;
constexpr std::uint64_t kWordBytes = 8;

int log2_up(int ranks) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(ranks) - 1));
}

/// Part of what happens in one cycle.
struct Exchange {
  double messages_inside = 0;  // of one rank, on average
  double messages_between = 0;
  double bytes_inside = 0;
  double bytes_between = 0;
  double most_bytes = 0;
  int steps_inside = 0;
  int steps_between = 0;
  int fan_in = 0;
  double time_us = 0;
};

void add(Exchange& sum, const Exchange& one) {
  sum.messages_inside += one.messages_inside;
  sum.messages_between += one.messages_between;
  sum.bytes_inside += one.bytes_inside;
  sum.bytes_between += one.bytes_between;
  sum.most_bytes += one.most_bytes;
  sum.steps_inside += one.steps_inside;
  sum.steps_between += one.steps_between;
  sum.fan_in += one.fan_in;
  sum.time_us += one.time_us;
}

class FlatJob {
 public:
  FlatJob(int ranks, const CostOptions& options)
      : options_(options), ranks_(ranks), local_(std::min(ranks, options.ranks_per_host)) {}

  /// Partners at distance 1, 2, 4, ..: the first ones are on the same host.
  [[nodiscard]] Exchange combine_bits() const {
    const std::uint64_t bits = static_cast<std::uint64_t>(options_.tensors) + kStatusBits;
    const std::uint64_t bytes = (bits + kWordBits - 1) / kWordBits * kWordBytes;
    const int all = log2_up(ranks_);
    const int inside = log2_up(local_);
    Exchange exchange;
    exchange.steps_inside = inside;
    exchange.steps_between = all - inside;
    exchange.messages_inside = inside;
    exchange.messages_between = all - inside;
    exchange.bytes_inside = static_cast<double>(bytes) * inside;
    exchange.bytes_between = static_cast<double>(bytes) * (all - inside);
    exchange.most_bytes = 2 * static_cast<double>(bytes) * all;
    exchange.fan_in = all;
    exchange.time_us = inside * step_us(bytes, false) + (all - inside) * step_us(bytes, true);
    return exchange;
  }

  /// All send to rank 0, which receives one message after the other.
  [[nodiscard]] Exchange gather(std::uint64_t bytes) const {
    const double inside = (local_ - 1.0) / ranks_;
    const double between = (ranks_ - static_cast<double>(local_)) / ranks_;
    const bool is_between = ranks_ > local_;
    const double handling = options_.handling_us + wire_us(bytes, is_between);
    return {.messages_inside = inside,
            .messages_between = between,
            .bytes_inside = inside * static_cast<double>(bytes),
            .bytes_between = between * static_cast<double>(bytes),
            .most_bytes = (ranks_ - 1.0) * static_cast<double>(bytes),
            .steps_inside = is_between ? 0 : 1,
            .steps_between = is_between ? 1 : 0,
            .fan_in = ranks_ - 1,
            .time_us = step_us(0, is_between) + (ranks_ - 1) * handling};
  }

  /// A binomial tree; each rank but the root receives once.
  [[nodiscard]] Exchange broadcast(std::uint64_t bytes) const {
    const int all = log2_up(ranks_);
    const int inside = log2_up(local_);
    const double hosts = options_.hosts(ranks_);
    const double between = (hosts - 1) / ranks_;
    const double within = (ranks_ - hosts) / ranks_;
    return {.messages_inside = within,
            .messages_between = between,
            .bytes_inside = within * static_cast<double>(bytes),
            .bytes_between = between * static_cast<double>(bytes),
            .most_bytes = static_cast<double>(bytes) * all,
            .steps_inside = inside,
            .steps_between = all - inside,
            .fan_in = 0,
            .time_us = inside * step_us(bytes, false) + (all - inside) * step_us(bytes, true)};
  }

 private:
  [[nodiscard]] double step_us(std::uint64_t bytes, bool is_between) const {
    return 2 * options_.handling_us + options_.message_us(bytes, is_between);
  }
  [[nodiscard]] double wire_us(std::uint64_t bytes, bool is_between) const {
    return options_.message_us(bytes, is_between) - options_.message_us(0, is_between);
  }

  const CostOptions& options_;
  int ranks_;
  int local_;
};

/// `each` in all cycles of a step and `more` in some of them. Tensors wait half a cycle on average.
Cost cost_of(const Exchange& each, double cycles, const Exchange& more, double some, double cycle_us) {
  Exchange both = each;
  add(both, more);
  return {.messages_inside = cycles * each.messages_inside + some * more.messages_inside,
          .messages_between = cycles * each.messages_between + some * more.messages_between,
          .bytes_inside = cycles * each.bytes_inside + some * more.bytes_inside,
          .bytes_between = cycles * each.bytes_between + some * more.bytes_between,
          .most_bytes = cycles * each.most_bytes + some * more.most_bytes,
          .steps_inside = both.steps_inside,
          .steps_between = both.steps_between,
          .fan_in = both.fan_in,
          .time_us = cycle_us / 2 + both.time_us};
}

}  // namespace

Costs flat_cost(int ranks, const CostOptions& options) {
  options.check();
  const FlatJob job(ranks, options);
  const Exchange bits = job.combine_bits();
  const auto per_wave = static_cast<std::uint64_t>(options.tensors / options.waves);
  const std::uint64_t described = per_wave * static_cast<std::uint64_t>(options.request_bytes);
  Exchange descriptions;
  add(descriptions, job.gather(kLengthBytes));
  add(descriptions, job.gather(described));
  add(descriptions, job.broadcast(kLengthBytes));
  add(descriptions, job.broadcast(described));
  // A cycle is not shorter than what it has to do.
  const double cycle_us = std::max(options.cycle_ms * kUsPerMs, bits.time_us);
  const double cycles = std::max<double>(options.waves, std::floor(options.step_ms * kUsPerMs / cycle_us));
  return {.cold = cost_of(bits, cycles, descriptions, options.waves, cycle_us),
          .steady = cost_of(bits, cycles, {}, 0, cycle_us)};
}

}  // namespace hora::benchmarks
