#include "tensors.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "status.h"

namespace hora::tensorflow {
namespace {

/// In the order of DType.
constexpr std::array<DataType, kDTypes.size()> kDataTypes{
    DataType::kBool,  DataType::kUInt8, DataType::kInt8,     DataType::kInt16, DataType::kInt32,
    DataType::kInt64, DataType::kHalf,  DataType::kBFloat16, DataType::kFloat, DataType::kDouble};

constexpr DataType to_data_type(DType dtype) {
  return kDataTypes[static_cast<std::size_t>(dtype)];
}
static_assert(
    to_data_type(DType::kBool) == DataType::kBool && to_data_type(DType::kUInt8) == DataType::kUInt8 &&
    to_data_type(DType::kInt8) == DataType::kInt8 && to_data_type(DType::kInt16) == DataType::kInt16 &&
    to_data_type(DType::kInt32) == DataType::kInt32 && to_data_type(DType::kInt64) == DataType::kInt64 &&
    to_data_type(DType::kFloat16) == DataType::kHalf &&
    to_data_type(DType::kBFloat16) == DataType::kBFloat16 &&
    to_data_type(DType::kFloat32) == DataType::kFloat && to_data_type(DType::kFloat64) == DataType::kDouble);

DType to_dtype(DataType type) {
  const auto* const found = std::ranges::find(kDataTypes, type);
  if (found == kDataTypes.end())
    raise(ErrorKind::kInvalidArgument, "tensors of TensorFlow's dtype {} are not supported",
          static_cast<int>(type));
  return static_cast<DType>(found - kDataTypes.begin());
}

TensorPtr own(Tensor* tensor) {
  return {tensor, api().delete_tensor};
}

using Memory = std::shared_ptr<std::byte[]>;

void release_memory(void* /*data*/, std::size_t /*bytes*/, void* memory) {
  delete static_cast<Memory*>(memory);
}

}  // namespace

TensorPtr get_input(KernelContext& context, int index) {
  Tensor* tensor = nullptr;
  checked(api().get_input, &context, index, &tensor);
  return own(tensor);
}

TensorRef describe(const Tensor& tensor) {
  Shape shape;
  for (int axis = 0; axis < api().num_dims(&tensor); ++axis) shape.push_back(api().dim(&tensor, axis));
  return {static_cast<std::byte*>(api().tensor_data(&tensor)), std::move(shape),
          to_dtype(api().tensor_type(&tensor)), DeviceKind::kHost};
}

TensorPtr allocate_output(KernelContext& context, int index, DType dtype, const Shape& shape) {
  const std::size_t bytes = static_cast<std::size_t>(element_count(shape)) * size_of(dtype);
  return own(checked(api().allocate_output, &context, index, to_data_type(dtype), shape.data(),
                     static_cast<int>(shape.size()), bytes));
}

TensorPtr reuse_input(KernelContext& context, int index, const Shape& shape) {
  int forwarded = -1;
  return own(checked(api().forward_input_or_allocate_output, &context, &index, 1, index, shape.data(),
                     static_cast<int>(shape.size()), &forwarded));
}

void set_output(KernelContext& context, int index, const Output& output) {
  if (output.bytes() == 0) {
    static_cast<void>(allocate_output(context, index, output.dtype, output.shape));
    return;
  }
  const TensorPtr tensor = own(api().new_tensor(to_data_type(output.dtype), output.shape.data(),
                                                static_cast<int>(output.shape.size()), output.data.get(),
                                                output.bytes(), release_memory, new Memory(output.data)));
  checked(api().set_output, &context, index, static_cast<const Tensor*>(tensor.get()));
}

void set_output(KernelContext& context, int index, const Shape& shape, std::span<const std::int64_t> values) {
  const TensorPtr tensor = allocate_output(context, index, DType::kInt64, shape);
  std::ranges::copy(values, static_cast<std::int64_t*>(api().tensor_data(tensor.get())));
}

}  // namespace hora::tensorflow
