// What the engine adds to a collective: a job of one rank, where nothing is communicated. "round_trip"
// submits a call and waits for it; "submit" is the submission alone, of as many tensors as a model has.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <vector>

#include "api/session.h"
#include "transport/memory.h"

namespace hora {
namespace {

constexpr std::size_t kElements = 256;
constexpr std::size_t kTensors = 200;

Call allreduce(std::string name, std::vector<float>& values) {
  Call call;
  call.name = std::move(name);
  auto* data = reinterpret_cast<std::byte*>(values.data());
  const Shape shape{static_cast<std::int64_t>(values.size())};
  call.tensors = {{{data, shape, DType::kFloat32, DeviceKind::kHost}, data}};
  return call;
}

void wait(Session& session, const HandlePtr& handle) {
  static_cast<void>(session.wait_until(*handle, Clock::now() + std::chrono::seconds(60)));
  session.release(*handle);
}

void round_trip(benchmark::State& state) {
  Session session(make_local_transport(), {});
  std::vector<float> values(kElements);
  const Call call = allreduce("gradient", values);
  for (auto _ : state) wait(session, session.submit(call));
}

void submit(benchmark::State& state) {
  Session session(make_local_transport(), {});
  std::vector<std::vector<float>> values(kTensors, std::vector<float>(kElements));
  std::vector<Call> calls;
  for (std::size_t tensor = 0; tensor < kTensors; ++tensor)
    calls.push_back(allreduce(fmt::format("layer{}.weight", tensor), values[tensor]));
  std::vector<HandlePtr> handles;
  for (auto _ : state) {
    handles.clear();
    std::vector<Call> round = calls;
    const TimePoint start = Clock::now();
    for (Call& call : round) handles.push_back(session.submit(std::move(call)));
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
    for (const HandlePtr& handle : handles) wait(session, handle);
  }
  const auto kind = benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert;
  state.counters["per_call"] = benchmark::Counter(kTensors, kind);
}

BENCHMARK(round_trip)->Name("engine/round_trip")->UseRealTime();
BENCHMARK(submit)->Name("engine/submit")->UseManualTime();

}  // namespace
}  // namespace hora
