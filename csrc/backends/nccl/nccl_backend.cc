#include "backends/nccl/nccl_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <unordered_map>
#include <utility>

#include "backends/nccl/introduction.h"
#include "base/error.h"
#include "base/log.h"

namespace hora::nccl {

using cuda::DeviceScope;

namespace {

// How often NCCL is asked whether it has lost a peer.
constexpr auto kCheckInterval = std::chrono::milliseconds(20);
// How long NCCL may be at giving up a communicator, where it may be at other calls longer.
constexpr Duration kAbortLimit = std::chrono::seconds(10);

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

/// What the device may be at until the last communicator is aborted. Then it is given back, and never if one
/// cannot be.
struct NcclBackend::Needs {
  std::shared_ptr<cuda::Device> device;
  std::shared_ptr<void> batches;
  std::shared_ptr<Staging> staging;
  std::unique_ptr<cuda::PackKernels> kernels;

  ~Needs() {
    device->take_back();
    const DeviceScope scope(*device);
    kernels.reset();
  }
};

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

/// Says no when there is not all the memory that is wanted, unless it `may_be_short`.
bool NcclBackend::open(int device, bool may_be_short) {
  const std::lock_guard lock(mutex_);
  if (is_open_) return true;
  const cuda::CudaLibrary cuda = cuda::open_cuda(settings_.cuda_library);
  if (!cuda.driver) raise(ErrorKind::kInvalidArgument, "a tensor on a GPU, but {}", cuda.problem);
  library_ = open_nccl(settings_.nccl_library, settings_.library_folders);
  if (!library_.nccl) raise(ErrorKind::kInvalidArgument, "a tensor on a GPU, but {}", library_.problem);
  device_ = std::make_shared<cuda::Device>(cuda.driver, device);
  if (!set_up_packing(may_be_short)) return false;
  pool_ = std::make_shared<cuda::MemoryPool>(device_);
  log_info(fmt::format("GPU {} ({}) with NCCL {} ({}) and the driver {}", device, device_->pci_bus_id(),
                       describe_version(library_.version), library_.place, cuda.place));
  is_open_ = true;
  return true;
}

/// The framework may be asked for memory that it keeps; not with the mutex held, because that can make it
/// wait for another thread that is here.
void NcclBackend::require_open(int device) {
  if (is_open_ || open(device, !settings_.free_memory)) return;
  settings_.free_memory();
  static_cast<void>(open(device, true));
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

DeviceSet& NcclBackend::set_of(std::int32_t process_set, const Group& group) {
  const auto known = sets_.find(process_set);
  return known != sets_.end() ? known->second : sets_.emplace(process_set, make_set(group)).first->second;
}

bool NcclBackend::set_up_packing(bool may_be_short) {
  const DeviceScope scope(*device_);
  staging_ = Staging::allocate(library_.nccl, device_, wanted_staging_, may_be_short);
  if (!staging_) return false;
  cuda::LoadedKernels loaded = cuda::load_pack_kernels(device_->driver(), device_->number(),
                                                       {settings_.library_folders, settings_.cache_folder});
  kernels_ = std::move(loaded.kernels);
  kernels_ ? log_info(loaded.reason) : log_warning(loaded.reason);
  return true;
}

/// The first batch of a process set on GPUs makes its communicator, at the same place in the sequence on all
/// members.
DeviceSet NcclBackend::make_set(const Group& group) {
  const Agreement agreed = introduce(group, *library_.nccl, *device_,
                                     {library_.version, staging_->memory().size(), kernels_ != nullptr});
  DeviceSet set;
  set.communicator = std::make_unique<Communicator>(
      library_.nccl, device_, agreed.id, group.rank(), group.size(),
      CommunicatorOptions{settings_.timeout, settings_.blocking, stragglers_, abort_limit()},
      [&group] { group.pump(); });
  set.size = group.size();
  set.staging = staging_->memory().first(agreed.staging_bytes);
  set.kernels = agreed.have_kernels ? kernels_.get() : nullptr;
  return set;
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

void NcclBackend::forget(std::int32_t process_set, const Meanwhile& meanwhile) {
  auto set = sets_.extract(process_set);
  if (set.empty()) return;
  const DeviceScope scope(*device_);
  wait_until_idle(meanwhile);
  set.mapped().communicator->finish(meanwhile);
}

void NcclBackend::wait_until_idle(const Meanwhile& meanwhile) {
  while (unfinished(Clock::now()) > 0) {
    meanwhile();
    std::this_thread::yield();
  }
}

void NcclBackend::close(const Meanwhile& meanwhile) {
  if (!is_open_) return;
  const DeviceScope scope(*device_);
  wait_until_idle(meanwhile);
  for (auto& [number, set] : sets_) set.communicator->finish(meanwhile);
  sets_.clear();
  kernels_.reset();
  staging_.reset();
}

Duration NcclBackend::abort_limit() const {
  return std::min(settings_.timeout, kAbortLimit);
}

/// Giving memory back can wait for what the program has put on the device, so it has a thread of its own,
/// too.
void NcclBackend::fail(const Error& error) noexcept {
  if (!is_open_) return;
  device_->abandon();
  try {
    const std::shared_ptr<Needs> needs(
        new Needs{device_, launched_.fail(error), std::move(staging_), std::move(kernels_)});
    for (auto& [number, set] : sets_) set.communicator->abort(needs);
    stragglers_->start("giving GPU memory back", abort_limit(), [needs] {});
  } catch (const std::exception& another) {
    log_error(fmt::format("communicators could not be aborted: {}", another.what()));
  }
  sets_.clear();
}

}  // namespace hora::nccl
