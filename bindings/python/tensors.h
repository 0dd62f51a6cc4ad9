#pragma once

#include <pybind11/pybind11.h>

#include <optional>

#include "core/device_work.h"
#include "core/tensor_ref.h"

namespace hora::python {

/// On which device a call's tensors are, and who tells the stream on which the calling thread works there: a
/// Python function of the device's number. Without one they are in host memory.
struct DeviceSource {
  int device = -1;
  pybind11::object stream_of;

  [[nodiscard]] bool is_host() const { return device < 0; }
  /// With the interpreter lock held.
  [[nodiscard]] DevicePlace place() const;
};

struct ReadTensor {
  TensorRef ref;
  DeviceSource source;
};

/// Lets `read_tensor` accept tensors of exactly this type. With `dtypes`, a dict from the framework's dtypes
/// to our codes, it is a type like PyTorch's: read through DLPack's table of C functions where the type
/// offers it and `use_table` is set, otherwise through attributes. Without `dtypes` it offers Python's buffer
/// protocol. Tensors on GPUs are accepted with `stream_of`, see DeviceSource.
void register_tensor_type(const pybind11::type& type, std::optional<pybind11::dict> dtypes, bool use_table,
                          pybind11::object stream_of);

/// Describes a tensor of a registered type that can be used as it is: writable, C-contiguous, in host memory
/// or on a GPU, of a dtype of ours. Nothing for any other object.
[[nodiscard]] std::optional<ReadTensor> read_tensor(pybind11::handle tensor);

}  // namespace hora::python
