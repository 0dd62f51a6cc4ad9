#include "stand_ins/nccl/start.h"

#include <fmt/format.h>

#include "stand_ins/fake_cuda.h"
#include "stand_ins/nccl/report.h"

namespace hora::fake_nccl {

bool Start::may_begin(Communicator& communicator, const Operation& operation) {
  if (operation.fails) communicator.set_error(nccl::Result::kRemoteError);
  if (operation.hangs || operation.fails) return false;
  const Time now = std::chrono::steady_clock::now();
  if (!at_) at_ = now + slowness(communicator.rank());
  return now >= *at_;
}

void touch_buffers(const Operation& operation, const Communicator& communicator) {
  const std::size_t read = bytes_read(operation, communicator.rank(), communicator.size());
  const std::size_t written = bytes_written(operation, communicator.size());
  if (read != 0) fake_cuda::fake_cuda_memory(operation.from, read);
  if (written != 0) fake_cuda::fake_cuda_memory(operation.to, written);
}

void end_for_difference(const Communicator& communicator, int peer, const std::string& own,
                        const std::string& theirs) {
  end_process(fmt::format("ranks {} and {} differ: rank {} calls {}, rank {} calls {}", communicator.rank(),
                          peer, communicator.rank(), own, peer, theirs));
}

void check_peer_stays(const Communicator& communicator, int peer, Presence seen, const Operation& operation) {
  if (seen != Presence::kFinalized && seen != Presence::kDestroyed) return;
  end_process(fmt::format("rank {} waits for rank {} in {}, but rank {} has {} the communicator",
                          communicator.rank(), peer, text(operation.description), peer,
                          seen == Presence::kFinalized ? "finalized" : "destroyed"));
}

}  // namespace hora::fake_nccl
