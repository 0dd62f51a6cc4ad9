#include "scaling/contenders.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "bounds/bounds.h"

namespace hora::benchmarks {
namespace {

constexpr std::chrono::seconds kFarTooLong{60};

TensorRef ref(std::vector<float>& values) {
  return {reinterpret_cast<std::byte*>(values.data()),
          {static_cast<std::int64_t>(values.size())},
          DType::kFloat32,
          DeviceKind::kHost};
}

void run(Session& session, Call call) {
  const HandlePtr handle = session.submit(std::move(call));
  if (!session.wait_until(*handle, Clock::now() + kFarTooLong))
    throw std::runtime_error(handle->key().to_string() + " did not complete");
  session.release(*handle);
  if (handle->error() != nullptr) throw *handle->error();
}

Timed hora_call(Session& session, Buffers& buffers) {
  Call call;
  call.op = buffers.op;
  call.name = fmt::format("{}.{}", name(buffers.op), buffers.work.size());
  call.tensors = {{ref(buffers.work), nullptr}};
  const bool in_place = buffers.op == OpKind::kAllreduce || buffers.op == OpKind::kBroadcast;
  if (in_place) call.tensors.front().output = call.tensors.front().input.data;
  if (buffers.op == OpKind::kReducescatter) call.tensors.front().output = ref(buffers.output).data;
  if (buffers.op == OpKind::kAlltoall) {
    const std::size_t share = buffers.work.size() / static_cast<std::size_t>(buffers.ranks);
    call.splits.assign(static_cast<std::size_t>(buffers.ranks), static_cast<std::int64_t>(share));
  }
  return [&session, call] { run(session, call); };
}

Timed mpi_call(MPI_Comm communicator, Buffers& buffers) {
  float* work = buffers.work.data();
  float* output = buffers.output.data();
  const int count = static_cast<int>(buffers.work.size());
  const int share = count / buffers.ranks;
  switch (buffers.op) {
    case OpKind::kAllreduce:
      return [=] { MPI_Allreduce(MPI_IN_PLACE, work, count, MPI_FLOAT, MPI_SUM, communicator); };
    case OpKind::kBroadcast:
      return [=] { MPI_Bcast(work, count, MPI_FLOAT, 0, communicator); };
    case OpKind::kAllgather:
      return [=] { MPI_Allgather(work, count, MPI_FLOAT, output, count, MPI_FLOAT, communicator); };
    case OpKind::kAlltoall:
      return [=] { MPI_Alltoall(work, share, MPI_FLOAT, output, share, MPI_FLOAT, communicator); };
    case OpKind::kReducescatter:
      return [=] { MPI_Reduce_scatter_block(work, output, share, MPI_FLOAT, MPI_SUM, communicator); };
    default:
      throw std::invalid_argument(fmt::format("{} is not measured", name(buffers.op)));
  }
}

std::size_t output_count(OpKind op, std::size_t count, std::size_t ranks) {
  if (op == OpKind::kAllgather) return count * ranks;
  if (op == OpKind::kAlltoall) return count;
  return op == OpKind::kReducescatter ? count / ranks : 0;
}

}  // namespace

Buffers::Buffers(OpKind op, std::size_t bytes, int ranks) : op(op), ranks(ranks) {
  const auto size = static_cast<std::size_t>(ranks);
  const bool is_divided = op == OpKind::kAlltoall || op == OpKind::kReducescatter;
  const std::size_t unit = is_divided ? size : 1;
  work.resize(std::max(bytes / sizeof(float) / unit, std::size_t{1}) * unit);
  output.resize(output_count(op, work.size(), size));
}

std::vector<Contender> make_contenders(Session& session, MPI_Comm communicator, Buffers& buffers) {
  return {{"hora", hora_call(session, buffers)},
          {"mpi", mpi_call(communicator, buffers)},
          {"memory", [&] { hora_bench_read_and_write(buffers.work.data(), buffers.work.size()); }}};
}

}  // namespace hora::benchmarks
