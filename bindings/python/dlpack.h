#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <utility>

#include "core/handle.h"

namespace hora::python {

// The part of DLPack's C interface, version 1, that is used here; names and layout are DLPack's.
// https://dmlc.github.io/dlpack/latest/c_api.html

struct DLDevice {
  std::int32_t type;
  std::int32_t id;
};

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

constexpr std::int32_t kHostDevice = 1;
constexpr std::int32_t kCudaDevice = 2;

struct DLManagedTensor {
  DLTensor tensor;
  void* owner;
  void (*deleter)(DLManagedTensor* self);
};

/// A capsule that shares a result's memory, for frameworks to wrap.
[[nodiscard]] pybind11::capsule to_dlpack(const Output& output);

/// Where a result lies, in DLPack's numbers.
[[nodiscard]] std::pair<int, int> dlpack_device(const Output& output);

}  // namespace hora::python
