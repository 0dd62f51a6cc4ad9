#pragma once

#include <pybind11/pybind11.h>

#include <optional>

#include "core/tensor_ref.h"

namespace hora::python {

/// Lets `read_tensor` accept tensors of exactly this type. With `dtypes`, a dict from the framework's dtypes
/// to our codes, it is a type like PyTorch's: read through DLPack's table of C functions where the type
/// offers it and `use_table` is set, otherwise through attributes. Without `dtypes` it offers Python's buffer
/// protocol.
void register_tensor_type(const pybind11::type& type, std::optional<pybind11::dict> dtypes, bool use_table);

/// Describes a tensor of a registered type that can be used as it is: writable, C-contiguous, in host memory,
/// of a dtype of ours. Nothing for any other object.
[[nodiscard]] std::optional<TensorRef> read_tensor(pybind11::handle tensor);

}  // namespace hora::python
