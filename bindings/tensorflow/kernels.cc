#include "kernels.h"

#include <exception>
#include <memory>
#include <string>

#include "attributes.h"
#include "done_callback.h"
#include "ops.h"
#include "running_call.h"
#include "status.h"
#include "world.h"

namespace hora::tensorflow {
namespace {

constexpr auto kDevice = "CPU";

/// What `read` returns belongs to the kernel; an error of it is the kernel's.
template <typename Read>
void* create(KernelConstruction* construction, Read read) {
  try {
    return new auto(read(*construction));
  } catch (const std::exception& error) {
    api().construction_failure(construction, to_status(error).get());
    return nullptr;
  }
}

template <OpKind op>
void* create_collective(KernelConstruction* construction) {
  return create(construction, [](KernelConstruction& node) { return read_attributes(op, node); });
}

void destroy_collective(void* kernel) {
  delete static_cast<Attributes*>(kernel);
}

void start_collective(void* kernel, KernelContext* context, DoneCallback* callback) {
  const auto& attributes = *static_cast<const Attributes*>(kernel);
  auto call = std::make_unique<RunningCall>(*context, keep(callback));
  try {
    call->submit(attributes);
  } catch (const std::exception& error) {
    return call->fail(error);
  }
  if (attributes.waits) {
    call->wait();
  } else if (attributes.patience == Duration::zero() || !call->wait_for(attributes.patience)) {
    return RunningCall::end_later(std::move(call));
  }
  call->end();
}

void* create_number(KernelConstruction* construction) {
  return create(construction, read_world_attributes);
}

void destroy_number(void* kernel) {
  delete static_cast<WorldAttributes*>(kernel);
}

void compute_number(void* kernel, KernelContext* context) {
  try {
    set_world_number(*static_cast<const WorldAttributes*>(kernel), *context);
  } catch (const std::exception& error) {
    api().context_failure(context, to_status(error).get());
  }
}

template <OpKind op>
void register_collective() {
  KernelBuilder* const builder = api().new_async_kernel_builder(op_name(op), kDevice, create_collective<op>,
                                                                start_collective, destroy_collective);
  checked(api().register_kernel_builder, op_name(op), builder);
}

}  // namespace

void register_kernels() {
  register_collective<OpKind::kAllreduce>();
  register_collective<OpKind::kAllgather>();
  register_collective<OpKind::kBroadcast>();
  register_collective<OpKind::kAlltoall>();
  register_collective<OpKind::kReducescatter>();
  register_collective<OpKind::kJoin>();
  checked(api().register_kernel_builder, kWorldOp,
          api().new_kernel_builder(kWorldOp, kDevice, create_number, compute_number, destroy_number));
}

}  // namespace hora::tensorflow
