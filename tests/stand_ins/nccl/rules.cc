#include "stand_ins/nccl/rules.h"

#include <fmt/format.h>

#include <cstdint>

#include "stand_ins/fake_cuda.h"
#include "stand_ins/nccl/report.h"

namespace hora::fake_nccl {
namespace {

[[noreturn]] void end_for_call(const Operation& operation, const Communicator& communicator,
                               const std::string& what) {
  end_process(fmt::format("{} calls {}: {}", communicator.text(), text(operation.description), what));
}

/// Where `to` lies in `from`, or `from` in `to`, when the operation is in place.
bool is_in_place(const Operation& operation, const Communicator& communicator) {
  const std::size_t part = operation.description.count * size_of(operation.description.type);
  const std::size_t own = static_cast<std::size_t>(communicator.rank()) * part;
  switch (operation.description.kind) {
    case Kind::kAllGather:
      return operation.from == operation.to + own;
    case Kind::kReduceScatter:
      return operation.to == operation.from + own;
    default:
      return operation.from == operation.to;
  }
}

void check_buffers(const Operation& operation, const Communicator& communicator) {
  const std::size_t read = bytes_read(operation, communicator.rank(), communicator.size());
  const std::size_t written = bytes_written(operation, communicator.size());
  const auto from = reinterpret_cast<std::uintptr_t>(operation.from);
  const auto to = reinterpret_cast<std::uintptr_t>(operation.to);
  const std::size_t element = size_of(operation.description.type);
  if ((read != 0 && from % element != 0) || (written != 0 && to % element != 0))
    end_for_call(operation, communicator, "a buffer is not aligned to its elements");
  if (read == 0 || written == 0 || is_in_place(operation, communicator)) return;
  if (from < to + written && to < from + read)
    end_for_call(operation, communicator, "its buffers overlap and are not those of an operation in place");
}

}  // namespace

bool is_valid(const Operation& operation, const Communicator& communicator) {
  const Description& call = operation.description;
  const auto is_in = [](int value, int end) { return value >= 0 && value < end; };
  const bool has_peer = !is_collective(call.kind) || call.kind == Kind::kBroadcast;
  return is_in(static_cast<int>(call.type), 10) && is_in(static_cast<int>(call.op), 5) &&
         (!has_peer || is_in(operation.peer, communicator.size()));
}

void check_rules(const Operation& operation, Communicator& communicator) {
  communicator.check_launching_thread();
  const int current = fake_cuda::fake_cuda_current_device();
  if (current != communicator.device() && options().check_rules)
    end_for_call(operation, communicator, fmt::format("the current context is of device {}", current));
  if (operation.stream != nullptr &&
      !fake_cuda::fake_cuda_is_stream_of(operation.stream, communicator.device()))
    end_for_call(operation, communicator, "the stream is not a living one of the device");
  check_buffers(operation, communicator);
}

}  // namespace hora::fake_nccl
