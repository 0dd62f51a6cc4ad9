// Every collective from 4 B to 64 MiB, hora against raw MPI on the same memory, in C++:
//
//     mpirun -np 2 --bind-to none benchmarks/cpp/scaling --benchmark_out=scaling_cpp_2.json
//
// One benchmark is one operation and size. In each of its iterations hora, MPI and the memory bound have a
// turn: a barrier, then a block of calls, one after the other. The time per call is that of the slowest rank;
// a benchmark's time is hora's, its counters hold p10, p50 and p90 of all contenders. Numbers of iterations
// are fixed, so that all ranks make the same calls; rank 0 alone reports. --quick: few sizes and iterations.

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "scaling/contenders.h"
#include "scaling/ranks.h"
#include "transport/registry.h"

namespace hora::benchmarks {
namespace {

constexpr OpKind kOps[] = {OpKind::kAllreduce, OpKind::kBroadcast, OpKind::kAllgather, OpKind::kAlltoall,
                           OpKind::kReducescatter};
constexpr std::size_t kLargest = std::size_t{64} << 20;
constexpr std::size_t kLargestOfQuick = std::size_t{1} << 20;

/// How often a cell is measured; every rank must choose alike.
struct Effort {
  int calls;       ///< in one block
  int iterations;  ///< blocks of each contender
};

Effort effort_for(std::size_t bytes, bool quick) {
  Effort effort{1, 12};
  if (bytes <= std::size_t{4} << 20) effort = {3, 50};
  if (bytes <= std::size_t{256} << 10) effort = {10, 100};
  if (bytes <= std::size_t{4} << 10) effort = {50, 200};
  if (quick) effort.iterations = 3;
  return effort;
}

/// Seconds per call of the slowest rank.
double time_block(const Ranks& ranks, const Timed& call, int calls) {
  ranks.barrier();
  const Clock::time_point start = Clock::now();
  for (int number = 0; number < calls; ++number) call();
  return ranks.largest({std::chrono::duration<double>(Clock::now() - start).count() / calls}).front();
}

double percentile_us(std::vector<double> seconds, std::size_t percent) {
  std::ranges::sort(seconds);
  return seconds[((seconds.size() - 1) * percent + 50) / 100] * 1e6;
}

void measure(benchmark::State& state, Session& session, const Ranks& ranks, OpKind op, std::size_t bytes,
             int calls) {
  Buffers buffers(op, bytes, ranks.size());
  std::vector<Contender> contenders = make_contenders(session, ranks.communicator(), buffers);
  for (const Contender& contender : contenders) contender.call();  // connections, names, first touch
  std::map<std::string_view, std::vector<double>> seconds;
  state.counters["one_way_us"] = ranks.one_way_us();
  for (auto _ : state) {
    for (const Contender& contender : contenders) {
      std::ranges::fill(buffers.work, 0.0f);
      seconds[contender.name].push_back(time_block(ranks, contender.call, calls));
    }
    std::ranges::rotate(contenders, contenders.begin() + 1);
    state.SetIterationTime(seconds["hora"].back());
  }
  for (const auto& [name, times] : seconds) {
    for (const std::size_t percent : {10, 50, 90})
      state.counters[fmt::format("{}_p{}_us", name, percent)] = percentile_us(times, percent);
  }
  state.counters["bytes"] = static_cast<double>(buffers.work.size() * sizeof(float));
  state.counters["ranks"] = ranks.size();
  state.counters["hora/mpi"] = percentile_us(seconds["hora"], 50) / percentile_us(seconds["mpi"], 50);
}

void register_all(Session& session, const Ranks& ranks, bool quick) {
  const std::size_t largest = quick ? kLargestOfQuick : kLargest;
  for (const OpKind op : kOps) {
    for (std::size_t bytes = 4; bytes <= largest; bytes *= quick ? 64 : 4) {
      const Effort effort = effort_for(bytes, quick);
      const std::string title = fmt::format("{}/{}", name(op), bytes);
      benchmark::RegisterBenchmark(title.c_str(),
                                   [&, op, bytes, effort](benchmark::State& state) {
                                     measure(state, session, ranks, op, bytes, effort.calls);
                                   })
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond)
          ->Iterations(effort.iterations);
    }
  }
}

/// What ranks other than 0 report.
class Silence final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

/// Takes `--quick` out of the arguments, and on other ranks than 0 the file to write.
bool take_own_arguments(std::vector<char*>& arguments, int rank) {
  const auto starts_with = [](const char* text, const char* start) {
    return std::strncmp(text, start, std::strlen(start)) == 0;
  };
  if (rank != 0)
    std::erase_if(arguments, [&](const char* text) { return starts_with(text, "--benchmark_out"); });
  return std::erase_if(arguments, [&](const char* text) { return starts_with(text, "--quick"); }) != 0;
}

void run(std::vector<char*> arguments) {
  const Ranks ranks;
  const bool quick = take_own_arguments(arguments, ranks.rank());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  const Settings settings = read_settings(process_environment);
  Session session(open_transport(settings, process_environment, {}, [] {}), settings);
  register_all(session, ranks, quick);
  Silence silence;
  if (ranks.rank() == 0) {
    benchmark::RunSpecifiedBenchmarks();
  } else {
    benchmark::RunSpecifiedBenchmarks(&silence);
  }
  benchmark::ClearRegisteredBenchmarks();
  session.leave();
}

}  // namespace
}  // namespace hora::benchmarks

int main(int argument_count, char** arguments) {
  int level = 0;
  MPI_Init_thread(&argument_count, &arguments, MPI_THREAD_MULTIPLE, &level);
  hora::benchmarks::run({arguments, arguments + argument_count});
  MPI_Finalize();
}
