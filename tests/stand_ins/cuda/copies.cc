// Copies and fills, in the order of their stream. Host memory is read and written when they run, not before:
// the real driver may do either.

#include <cstring>

#include "stand_ins/cuda/symbols.h"
#include "stand_ins/cuda/work.h"

namespace hora::fake_cuda {
namespace {

Result submit_copy(cuda::Stream stream, Run run) {
  return call([&](State& state, Lock&) {
    submit(state, find_stream_for_work(state, stream), {.run = std::move(run), .count = &Counts::copies});
  });
}

void* device_memory(cuda::DevicePointer pointer, std::size_t bytes) {
  return fake_cuda_memory(reinterpret_cast<const void*>(pointer), bytes);
}

}  // namespace

extern "C" {

Result cuMemcpyDtoDAsync_v2(cuda::DevicePointer to, cuda::DevicePointer from, std::size_t bytes,
                            cuda::Stream stream) {
  return submit_copy(stream, [=] {
    if (bytes > 0) std::memmove(device_memory(to, bytes), device_memory(from, bytes), bytes);
    return true;
  });
}

Result cuMemcpyHtoDAsync_v2(cuda::DevicePointer to, const void* from, std::size_t bytes,
                            cuda::Stream stream) {
  return submit_copy(stream, [=] {
    if (bytes > 0) std::memcpy(device_memory(to, bytes), from, bytes);
    return true;
  });
}

Result cuMemcpyDtoHAsync_v2(void* to, cuda::DevicePointer from, std::size_t bytes, cuda::Stream stream) {
  return submit_copy(stream, [=] {
    if (bytes > 0) std::memcpy(to, device_memory(from, bytes), bytes);
    return true;
  });
}

Result cuMemsetD8Async(cuda::DevicePointer to, unsigned char value, std::size_t count, cuda::Stream stream) {
  return call([&](State& state, Lock&) {
    const auto fill = [=] {
      if (count > 0) std::memset(device_memory(to, count), value, count);
      return true;
    };
    submit(state, find_stream_for_work(state, stream), {.run = fill, .count = &Counts::fills});
  });
}
}

}  // namespace hora::fake_cuda
