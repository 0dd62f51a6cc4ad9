#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/handle.h"
#include "core/tensor_ref.h"
#include "tensorflow_api.h"

namespace hora::tensorflow {

/// One reference to a tensor's memory.
using TensorPtr = std::unique_ptr<Tensor, void (*)(Tensor*)>;

[[nodiscard]] TensorPtr get_input(KernelContext& context, int index);

/// Throws Error(kInvalidArgument) for a dtype that we do not have.
[[nodiscard]] TensorRef describe(const Tensor& tensor);

/// A new output of the kernel, not filled.
[[nodiscard]] TensorPtr allocate_output(KernelContext& context, int index, DType dtype, const Shape& shape);

/// An output of the kernel that is like the input of its number: the memory of that input where nobody else
/// wants it, otherwise new. No reference to the input may be held meanwhile; the context holds one until the
/// kernel ends.
[[nodiscard]] TensorPtr reuse_input(KernelContext& context, int index, const Shape& shape);

/// Makes memory that the core has allocated an output of the kernel, without a copy.
void set_output(KernelContext& context, int index, const Output& output);

/// Makes these numbers an output of the kernel.
void set_output(KernelContext& context, int index, const Shape& shape, std::span<const std::int64_t> values);

}  // namespace hora::tensorflow
