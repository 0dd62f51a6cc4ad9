#include "support/device.h"

#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "collectives/chunks.h"
#include "stand_ins/cuda/symbols.h"

namespace hora::testing {
namespace {

/// The stand-in is linked with the tests.
std::shared_ptr<const cuda::Driver> open_driver() {
  cuda::CudaLibrary library = cuda::open_cuda("");
  if (!library.driver) throw std::runtime_error(library.problem);
  cuda::check(*library.driver, library.driver->init(0), "cuInit");
  return std::move(library.driver);
}

std::size_t result_bytes(OpKind op, const TensorRef& input, int rank, int size) {
  if (op != OpKind::kReducescatter || input.shape.empty() || input.shape.front() == 0) return input.bytes();
  const auto rows = static_cast<std::size_t>(input.shape.front());
  return input.bytes() / rows * Chunks(rows, size).length(rank);
}

}  // namespace

TestDevice::TestDevice(int number) : driver_(open_driver()), number_(number) {
  cuda::DeviceNumber device = 0;
  check(*driver_, driver_->device(&device, number), "cuDeviceGet");
  check(*driver_, driver_->primary_context_retain(&context_, device), "cuDevicePrimaryCtxRetain");
  check(*driver_, driver_->context_push(context_), "cuCtxPushCurrent");
  check(*driver_, driver_->stream_create(&stream_, cuda::kStreamNonBlocking, 0),
        "cuStreamCreateWithPriority");
}

TestDevice::~TestDevice() {
  cuda::Context popped = nullptr;
  static_cast<void>(driver_->stream_destroy(stream_));
  static_cast<void>(driver_->context_pop(&popped));
  static_cast<void>(driver_->primary_context_release(number_));
}

void TestDevice::synchronize() const {
  cuda::Event event = nullptr;
  check(*driver_, driver_->event_create(&event, cuda::kEventDisableTiming), "cuEventCreate");
  check(*driver_, driver_->event_record(event, stream_), "cuEventRecord");
  check(*driver_, fake_cuda::cuEventSynchronize(event), "cuEventSynchronize");
  check(*driver_, driver_->event_destroy(event), "cuEventDestroy");
}

CallOnDevice::CallOnDevice(const TestDevice& device, Call call, int rank, int size)
    : device_(device), call_(std::move(call)) {
  const cuda::Driver& driver = device_.driver();
  call_.place = device_.place();
  for (CallTensor& tensor : call_.tensors) {
    const std::size_t bytes = tensor.input.bytes();
    const cuda::DevicePointer input = allocate(bytes);
    if (bytes > 0)
      check(driver, fake_cuda::cuMemcpyHtoDAsync_v2(input, tensor.input.data, bytes, device_.stream()),
            "cuMemcpyHtoDAsync");
    if (tensor.output != nullptr) {
      const std::size_t length = result_bytes(call_.op, tensor.input, rank, size);
      const cuda::DevicePointer output = tensor.output == tensor.input.data ? input : allocate(length);
      results_.push_back({tensor.output, output, length});
      tensor.output = reinterpret_cast<std::byte*>(output);
    }
    tensor.input.data = reinterpret_cast<std::byte*>(input);
    tensor.input.device = DeviceKind::kCuda;
  }
}

CallOnDevice::~CallOnDevice() {
  for (const cuda::DevicePointer memory : allocated_) static_cast<void>(device_.driver().memory_free(memory));
}

cuda::DevicePointer CallOnDevice::allocate(std::size_t bytes) {
  if (bytes == 0) return 0;
  cuda::DevicePointer memory = 0;
  check(device_.driver(), device_.driver().memory_allocate(&memory, bytes), "cuMemAlloc");
  allocated_.push_back(memory);
  return memory;
}

std::vector<Output> CallOnDevice::bring_back(const Session& session, const Handle& handle) {
  const cuda::Driver& driver = device_.driver();
  session.order_before(handle, device_.place().stream);
  const auto fetch = [&](std::byte* host, const void* device, std::size_t bytes) {
    if (bytes == 0) return;
    check(driver,
          fake_cuda::cuMemcpyDtoHAsync_v2(host, reinterpret_cast<cuda::DevicePointer>(device), bytes,
                                          device_.stream()),
          "cuMemcpyDtoHAsync");
  };
  for (const Copy& copy : results_) fetch(copy.host, reinterpret_cast<const void*>(copy.device), copy.bytes);
  std::vector<Output> outputs = handle.outputs();
  for (Output& output : outputs) {
    auto host = std::make_shared_for_overwrite<std::byte[]>(output.bytes());
    fetch(host.get(), output.data.get(), output.bytes());
    output.data = std::move(host);
  }
  device_.synchronize();
  return outputs;
}

bool tests_use_devices() {
  return std::getenv("HORA_TEST_DEVICE") != nullptr;
}

}  // namespace hora::testing
