#include "agreement/cost.h"

#include "base/error.h"

namespace hora::benchmarks {

void CostOptions::check() const {
  const auto require = [](bool holds, const char* what) {
    if (!holds) raise(ErrorKind::kInvalidArgument, "{}", what);
  };
  require(ranks_per_host > 0 && arity > 0, "ranks per host and arity must be positive");
  require(waves > 0 && tensors >= waves, "there must be at least as many tensors as waves, and one wave");
  require(step_ms > 0 && cycle_ms > 0, "step and cycle must take some time");
  require(latency_inside_us >= 0 && latency_between_us >= 0 && handling_us >= 0,
          "latencies and handling must not be negative");
  require(bandwidth_inside_GBps > 0 && bandwidth_between_GBps > 0, "bandwidths must be positive");
  require(request_bytes > 0, "a description has bytes");
}

double CostOptions::message_us(std::uint64_t bytes, bool is_between) const {
  constexpr double kBytesPerUsAndGBps = 1000;
  const double bandwidth = is_between ? bandwidth_between_GBps : bandwidth_inside_GBps;
  return (is_between ? latency_between_us : latency_inside_us) +
         static_cast<double>(bytes) / (bandwidth * kBytesPerUsAndGBps);
}

}  // namespace hora::benchmarks
