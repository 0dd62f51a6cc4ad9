#pragma once

#include <cstdint>

namespace hora::benchmarks {

/// A training step and the machine that it runs on.
struct CostOptions {
  int ranks_per_host = 8;
  int arity = 16;     ///< as the engine's
  int tensors = 200;  ///< in a step
  int waves = 10;     ///< parts of a step whose tensors become ready together
  double step_ms = 100;
  double latency_inside_us = 0.5;
  double latency_between_us = 5;
  double bandwidth_inside_GBps = 10;
  double bandwidth_between_GBps = 10;
  double handling_us = 0.5;  ///< what a node spends on sending a message, and on receiving one
  // Of the flat coordinator only.
  double cycle_ms = 1;
  int request_bytes = 120;  ///< description of a tensor

  /// Throws Error(kInvalidArgument) where a number makes no sense.
  void check() const;
  [[nodiscard]] int hosts(int ranks) const { return (ranks + ranks_per_host - 1) / ranks_per_host; }
  /// How long one message takes once it is sent.
  [[nodiscard]] double message_us(std::uint64_t bytes, bool is_between) const;
};

/// What agreement on all tensors of a step costs.
struct Cost {
  // Sent by one rank in a step, on average.
  double messages_inside = 0;   ///< inside a host
  double messages_between = 0;  ///< between hosts
  double bytes_inside = 0;
  double bytes_between = 0;
  double most_bytes = 0;  ///< that one rank sends and receives in a step, at most
  // Of one exchange: a wave, or a cycle.
  int steps_inside = 0;  ///< messages that wait for each other, in the longest chain
  int steps_between = 0;
  int fan_in = 0;      ///< messages that one rank receives, at most
  double time_us = 0;  ///< from the last announcement until all ranks know, on average
};

/// Of the first step, in which tensors have to be described, and of all further ones.
struct Costs {
  Cost cold;
  Cost steady;
};

/// Of the negotiators as they are, each in its place in the tree, with simulated messages.
[[nodiscard]] Costs tree_cost(int ranks, const CostOptions& options);

/// Of a coordinator without a tree that looks in fixed cycles, by formula: in every cycle all ranks combine a
/// bit vector of known tensors by recursive doubling. In cycles with tensors that are new, all send their
/// number of descriptions and then these to rank 0, which broadcasts a number and then the answer along a
/// binomial tree.
[[nodiscard]] Costs flat_cost(int ranks, const CostOptions& options);

}  // namespace hora::benchmarks
