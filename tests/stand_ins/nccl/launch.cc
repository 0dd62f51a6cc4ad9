#include "stand_ins/nccl/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "stand_ins/cuda/symbols.h"
#include "stand_ins/fake_cuda.h"
#include "stand_ins/nccl/collective.h"
#include "stand_ins/nccl/messages.h"
#include "stand_ins/nccl/report.h"

namespace hora::fake_nccl {
namespace {

using nccl::Result;

/// The calls of one group on one communicator: first its collectives one after the other, then its sends and
/// receives all at once.
class Launch {
 public:
  Launch(std::shared_ptr<Communicator> communicator, const std::vector<Operation>& operations)
      : communicator_(std::move(communicator)),
        number_(communicator_->next_launch()),
        messages_(*communicator_, operations) {
    for (const Operation& operation : operations) {
      if (is_collective(operation.description.kind)) collectives_.emplace_back(*communicator_, operation);
    }
  }

  const Communicator& communicator() const { return *communicator_; }
  std::uint64_t number() const { return number_; }

  /// Goes as far as peers allow; true when all is done.
  bool advance() {
    const std::lock_guard lock(mutex_);
    if (ended_) return true;
    if (!communicator_->is_turn_of(number_)) return false;
    for (; done_ < collectives_.size(); ++done_) {
      if (!collectives_[done_].advance()) return false;
    }
    if (!messages_.advance()) return false;
    communicator_->finish_launch();
    ended_ = true;
    return true;
  }

  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }

 private:
  const std::shared_ptr<Communicator> communicator_;
  const std::uint64_t number_;

  std::mutex mutex_;  // guards what follows
  bool ended_ = false;
  std::size_t done_ = 0;
  std::vector<Collective> collectives_;
  Messages messages_;
};

/// The launches that are not complete. Streams know them by number only: a stream that breaks forgets its
/// work, and one that is slow may ask after an abort.
struct Launches {
  std::mutex mutex;  // guards the rest
  std::uintptr_t last = 0;
  std::map<std::uintptr_t, std::shared_ptr<Launch>> pending;
};

Launches& launches() {
  static auto* const only = new Launches;  // for ever: streams may still run while the process ends
  return *only;
}

void* add(std::shared_ptr<Launch> launch) {
  const std::lock_guard lock(launches().mutex);
  launches().pending.emplace(++launches().last, std::move(launch));
  return reinterpret_cast<void*>(launches().last);
}

std::shared_ptr<Launch> at(void* number) {
  const std::lock_guard lock(launches().mutex);
  const auto found = launches().pending.find(reinterpret_cast<std::uintptr_t>(number));
  return found == launches().pending.end() ? nullptr : found->second;
}

void remove(void* number) {
  std::shared_ptr<Launch> removed;  // its communicator may be the last, and must not end under the lock
  const std::lock_guard lock(launches().mutex);
  const auto found = launches().pending.find(reinterpret_cast<std::uintptr_t>(number));
  if (found == launches().pending.end()) return;
  removed = std::move(found->second);
  launches().pending.erase(found);
}

bool advance(void* number) {
  const std::shared_ptr<Launch> launch = at(number);
  if (launch != nullptr && !launch->advance()) return false;
  remove(number);
  return true;
}

Result put_on_stream(Communicator& communicator, cuda::Stream stream, void* number) {
  if (at(number) == nullptr) return Result::kSuccess;  // aborted meanwhile
  fake_cuda::cuCtxPushCurrent_v2(communicator.context());
  const cuda::Result result = fake_cuda::fake_cuda_enqueue(stream, advance, number);
  cuda::Context popped = nullptr;
  fake_cuda::cuCtxPopCurrent_v2(&popped);
  if (result == cuda::Result::kSuccess) return Result::kSuccess;
  remove(number);
  communicator.set_error(Result::kUnhandledCudaError);
  return failed(Result::kUnhandledCudaError, fmt::format("{}: launching fails with CUDA error {}",
                                                         communicator.text(), static_cast<int>(result)));
}

void log_calls(const Communicator& communicator, std::uint64_t group,
               const std::vector<Operation>& operations) {
  for (const Operation& operation : operations) {
    const Description& call = operation.description;
    log({communicator.meeting().number(), group, communicator.rank(), call.kind, call.count, call.type,
         call.op, operation.peer});
  }
  count(&Counts::operations, operations.size());
  count(&Counts::launches);
}

}  // namespace

Result launch(const std::shared_ptr<Communicator>& communicator, std::vector<Operation> operations) {
  const cuda::Stream stream = operations.front().stream;
  const auto made = std::make_shared<Launch>(communicator, operations);
  log_calls(*communicator, made->number(), operations);
  void* const number = add(made);
  if (communicator->blocking()) return put_on_stream(*communicator, stream, number);
  communicator->launch_later([&communicator = *communicator, stream, number] {
    static_cast<void>(put_on_stream(communicator, stream, number));
  });
  return Result::kInProgress;
}

void end_work_of(const Communicator& communicator) {
  std::vector<std::shared_ptr<Launch>> ended;
  {
    const std::lock_guard lock(launches().mutex);
    for (const auto& [number, launch] : launches().pending) {
      if (&launch->communicator() == &communicator) ended.push_back(launch);
    }
    std::erase_if(launches().pending,
                  [&](const auto& entry) { return &entry.second->communicator() == &communicator; });
  }
  for (const auto& launch : ended) launch->end();
}

}  // namespace hora::fake_nccl
