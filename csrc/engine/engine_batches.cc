#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"
#include "engine/engine.h"
#include "ops/table.h"

namespace hora {

void Engine::execute(Batch batch) {
  auto [calls, waiting] = parked_.take(batch);
  for (Submission& call : waiting) park(std::move(call));
  if (!batch.error.empty()) {
    ++counters_.errors;
    for (Submission& call : calls) call.handle->fail(Error(ErrorKind::kMismatch, batch.error));
    return;
  }
  try {
    run_batch(batch, calls);
    apply_set_change(batch);
    faults_.reach(FaultPoint::kBeforeCompletion);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMismatch) {
      parked_.keep_for_end(calls);
      throw;
    }
    ++counters_.errors;
    for (Submission& call : calls) call.handle->fail(error);
    return;
  } catch (...) {
    parked_.keep_for_end(calls);
    throw;
  }
  if (batch.signature().op == OpKind::kJoin) submissions_.restart_numbering(kGlobalSet);
  ++counters_.batches;
  for (std::size_t call = 0; call < calls.size(); ++call) {
    counters_.tensors += batch.entries[call].signature->tensors.size();
    counters_.bytes += calls[call].request.bytes;
    calls[call].handle->succeed(std::move(calls[call].results), batch.value);
  }
}

void Engine::run_batch(const Batch& batch, std::vector<Submission>& calls) {
  const AtBatch at(doing_, batch);
  const auto backend =
      std::ranges::find_if(backends_, [&](const auto& each) { return each->accepts(batch); });
  if (backend == backends_.end()) {
    raise(ErrorKind::kSessionFailed, "no backend for {}", name(batch.signature().device));
  }
  bool has_waited = false;
  const auto come_to_middle = [&] {
    if (!std::exchange(has_waited, true)) faults_.reach(FaultPoint::kInBatch);
  };
  const Group::Pump pump = [&] {
    come_to_middle();
    if (!advance(false)) wait_a_little();
  };
  const BatchGroups groups(
      reach_, placement_of(batch.process_set()), batch,
      {caller_waits() ? spins_ : 0, pump, [this] { static_cast<void>(advance(false)); }});
  runs_on_device_ = batch.signature().device != DeviceKind::kHost;
  if (runs_on_device_) uses_device_ = true;
  if (runs_on_device_ && reports_for(batch.process_set())) ++to_report_;
  const TimePoint start = Clock::now();
  (*backend)->run(batch, calls, groups.all());
  come_to_middle();
  if (topology().rank() != 0 || runs_on_device_ || !groups.took_route()) return;
  if (const std::string news = route_chooser_.learn(batch, Clock::now() - start); !news.empty())
    log_info(news);
}

const Placement& Engine::placement_of(std::int32_t process_set) {
  auto known = placements_.find(process_set);
  if (known == placements_.end())
    known = placements_.emplace(process_set, place(topology(), process_sets_.find(process_set))).first;
  return known->second;
}

void Engine::apply_set_change(const Batch& batch) {
  const auto process_set = static_cast<std::int32_t>(batch.value);
  if (batch.signature().op == OpKind::kAddProcessSet) process_sets_.add(process_set, batch.signature().ranks);
  if (batch.signature().op != OpKind::kRemoveProcessSet) return;
  process_sets_.remove(process_set);
  for (const auto& backend : backends_) backend->forget(process_set, [this] { keep_in_touch(); });
  placements_.erase(process_set);
  parked_.fail_set(process_set);
}

}  // namespace hora
