// hora_simulation                             the tests
// hora_simulation --seed N [--fault NAME] [--verbose]   one seed; prints what is wrong, or every event
// hora_simulation --soak                      new seeds until stopped by SIGINT or until one fails

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>

#include "simulation/seeds.h"

namespace hora::simulation {
namespace {

struct Options {
  std::optional<std::uint32_t> seed;
  SimulationOptions simulation;
  bool soaks = false;
};

std::uint32_t number(const std::string& text) {
  std::uint32_t read = 0;
  const auto [end, trouble] = std::from_chars(text.data(), text.data() + text.size(), read);
  if (trouble != std::errc() || end != text.data() + text.size())
    throw std::invalid_argument("'" + text + "' is no seed");
  return read;
}

Options parse(int count, char** arguments) {
  Options options;
  for (int at = 1; at < count; ++at) {
    const std::string name = arguments[at];
    const auto value = [&] {
      if (++at == count) throw std::invalid_argument(name + " needs a value");
      return std::string(arguments[at]);
    };
    if (name == "--seed") {
      options.seed = number(value());
    } else if (name == "--fault") {
      options.simulation.fault = fault_of(value());
    } else if (name == "--verbose") {
      options.simulation.is_verbose = true;
    } else if (name == "--soak") {
      options.soaks = true;
    } else {
      throw std::invalid_argument("there is no option " + name);
    }
  }
  return options;
}

int run_one(std::uint32_t seed, const SimulationOptions& options) {
  const Verdict verdict = judge(seed, options);
  fmt::print("{}", describe(seed, verdict, options.fault));
  return verdict.findings.empty() ? 0 : 1;
}

volatile std::sig_atomic_t was_interrupted = 0;

void tell_soak(std::uint64_t seeds, std::chrono::steady_clock::duration time, std::uint32_t last) {
  fmt::print("{} seeds in {:.0f} s, the last {}: nothing wrong\n", seeds,
             std::chrono::duration<double>(time).count(), last);
  std::fflush(stdout);
}

/// Begins anywhere, so that each soak sees other seeds.
int soak() {
  constexpr auto kReportEvery = std::chrono::seconds(5);
  using Clock = std::chrono::steady_clock;
  std::uint32_t seed = std::random_device()();
  const Clock::time_point start = Clock::now();
  Clock::time_point reported = start;
  std::signal(SIGINT, [](int) { was_interrupted = 1; });
  for (std::uint64_t seeds = 1;; ++seeds, ++seed) {
    const Verdict verdict = judge(seed);
    if (!verdict.findings.empty()) {
      fmt::print("{}", describe(seed, verdict));
      return 1;
    }
    const Clock::time_point now = Clock::now();
    if (was_interrupted == 0 && now - reported < kReportEvery) continue;
    reported = now;
    tell_soak(seeds, now - start, seed);
    if (was_interrupted != 0) return 0;
  }
}

}  // namespace
}  // namespace hora::simulation

int main(int count, char** arguments) {
  ::testing::InitGoogleTest(&count, arguments);
  try {
    const auto options = hora::simulation::parse(count, arguments);
    if (options.soaks) return hora::simulation::soak();
    if (options.seed) return hora::simulation::run_one(*options.seed, options.simulation);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  return RUN_ALL_TESTS();
}
