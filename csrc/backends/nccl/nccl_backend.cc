#include "backends/nccl/nccl_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/error.h"

namespace hora::nccl {

using cuda::DeviceScope;

namespace {

// How often NCCL is asked whether it has lost a peer.
constexpr auto kCheckInterval = std::chrono::milliseconds(20);

/// A null stands for what was not put aside.
std::vector<cuda::MemoryPool::Reserve> take_reserves(std::span<Submission> calls) {
  std::vector<cuda::MemoryPool::Reserve> reserves;
  for (Submission& call : calls) {
    call.reserved.resize(call.is_absent ? 1 : call.reserved.size());
    for (const std::shared_ptr<void>& each : std::exchange(call.reserved, {}))
      reserves.push_back(std::static_pointer_cast<cuda::MemoryPool::Block>(each));
  }
  return reserves;
}

}  // namespace

NcclBackend::NcclBackend(const Settings& settings)
    : settings_(settings.device),
      wanted_staging_(settings.fusion_threshold),
      stragglers_(settings_.stragglers ? settings_.stragglers : std::make_shared<Stragglers>()),
      doorbell_(std::make_shared<Doorbell>()) {}

NcclBackend::~NcclBackend() {
  doorbell_->take_off();
}

bool NcclBackend::accepts(const Batch& batch) const {
  return batch.signature().device == DeviceKind::kCuda;
}

/// Null when there is not enough. Here, on a thread of the program, the framework can be asked to give memory
/// back.
cuda::MemoryPool::Reserve NcclBackend::reserve(std::size_t bytes) {
  cuda::MemoryPool::Reserve reserve = pool_->reserve(bytes);
  if (reserve || !settings_.free_memory) return reserve;
  settings_.free_memory();
  return pool_->reserve(bytes);
}

/// As if all ranks passed as many rows as this one.
void NcclBackend::reserve_results(Submission& submission, int members) {
  const Signature& signature = submission.request.signature;
  if (!op_spec(signature.op).ragged_first) return;
  if (pool_->take_shortage() && settings_.free_memory) settings_.free_memory();  // of an earlier call
  const std::int64_t times = signature.op == OpKind::kAllgather ? members : 1;
  for (std::size_t tensor = 0; tensor < submission.tensors.size(); ++tensor) {
    const auto rows = static_cast<std::size_t>(submission.tensors[tensor].rows * times);
    submission.reserved.push_back(reserve(signature.tensors[tensor].row_bytes() * rows));
  }
}

void NcclBackend::prepare(Submission& submission, int members) {
  const DevicePlace place = submission.ready.place;
  if (submission.tensors.empty()) {
    // A join: a script may pass the device also where it is not needed, or where there is none.
    device_of_join_ = place.device;
    return;
  }
  require_open(place.device);
  if (place.device != device_->number()) {
    raise(ErrorKind::kInvalidArgument,
          "the tensor is on GPU {}, but this rank has used GPU {} before; a rank uses one", place.device,
          device_->number());
  }
  const cuda::Driver& driver = device_->driver();
  const cuda::Stream stream = cuda::to_stream(place.stream);
  const DeviceScope scope(*device_);
  device_->require_no_capture(place.stream);
  reserve_results(submission, members);
  std::shared_ptr<cuda::EventTag> event = device_->new_event();
  const std::lock_guard lock(mutex_);  // numbers follow the order on the stream
  check(driver, driver.event_record(event.get(), stream), "cuEventRecord");
  submission.ready.event = std::move(event);
  submission.ready.number = ++calls_;
}

/// Of the events of one stream the newest comes last.
void NcclBackend::wait_for_inputs(std::span<const Submission> calls) const {
  std::unordered_map<std::uintptr_t, const DeviceReady*> newest;
  for (const Submission& call : calls) {
    if (!call.ready.event) continue;
    const DeviceReady*& known = newest[call.ready.place.stream];
    if (known == nullptr || known->number < call.ready.number) known = &call.ready;
  }
  const cuda::Driver& driver = device_->driver();
  for (const auto& [stream, ready] : newest) {
    check(driver,
          driver.stream_wait_event(device_->stream(), static_cast<cuda::Event>(ready->event.get()), 0),
          "cuStreamWaitEvent");
  }
}

/// Handles know of the device's work before it begins, so that tensors are kept also when something goes
/// wrong on the way.
void NcclBackend::run(const Batch& batch, std::span<Submission> calls, const Group& group) {
  if (!is_open_ && (device_of_join_ < 0 || !open(device_of_join_, true))) {
    raise(ErrorKind::kSessionFailed,
          "this rank has joined without ever having used a GPU, and the others go on with tensors on GPUs; "
          "pass the device: join(device)");
  }
  const DeviceScope scope(*device_);
  const auto launched = std::make_shared<LaunchedBatch>(
      device_, fmt::format("{} {}", name(batch.signature().op), batch.entries.front().key.to_string()));
  for (const Submission& call : calls) call.handle->attach(launched);
  try {
    launch(batch, calls, group, *launched);
  } catch (const Error& error) {
    // The job goes on after a mismatch, and what was launched before will be complete.
    if (error.kind() == ErrorKind::kMismatch) launched->record_end();
    keep(batch, launched, calls);
    throw;
  } catch (...) {
    keep(batch, launched, calls);
    throw;
  }
  keep(batch, launched, calls);
}

void NcclBackend::launch(const Batch& batch, std::span<Submission> calls, const Group& group,
                         LaunchedBatch& launched) {
  const DeviceSet& set = set_of(batch.process_set(), group);
  wait_for_inputs(calls);
  launched.record_begin();
  Lane lane(*library_.nccl, *device_, set, *pool_, take_reserves(calls), launched.consumer,
            [&group] { group.pump(); });
  tensors_.collect(batch, calls);
  tensors_.for_each_dtype([&](DType dtype, std::span<const OpTensor> tensors) {
    op_spec(batch.signature().op).run_on_device({group, batch, dtype, tensors, lane});
  });
  launched.record_end();
}

/// Results that the core has allocated live as long as the device is at them.
void NcclBackend::keep(const Batch& batch, const std::shared_ptr<LaunchedBatch>& launched,
                       std::span<Submission> calls) {
  auto results = std::make_shared<std::vector<Output>>();
  for (Submission& call : calls) {
    for (Output& result : call.results) result.device = device_->number();
    std::ranges::copy(call.results, std::back_inserter(*results));
  }
  launched_.add(launched, batch, std::move(results));
}

std::size_t NcclBackend::unfinished(TimePoint now) {
  if (launched_.size() == 0) return 0;
  launched_.look(now, settings_.timeout);
  if (now - last_check_ > kCheckInterval) {
    last_check_ = now;
    for (const auto& [number, set] : sets_) set.communicator->check_state();
  }
  return launched_.size();
}

void NcclBackend::ring_at_next_end(std::function<void()> ring) {
  if (const std::shared_ptr<LaunchedBatch> oldest = launched_.oldest())
    doorbell_->ring_after(*oldest, *device_, std::move(ring));
}

}  // namespace hora::nccl
