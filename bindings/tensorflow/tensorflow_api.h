#pragma once

// The part of TensorFlow's C interface that hora uses, in our own words; a test compares it with TensorFlow's
// headers where those are present. TensorFlow 2.16 and later.

#include <cstddef>
#include <cstdint>

namespace hora::tensorflow {

/// TF_Code.
enum class Code : int {
  kOk = 0,
  kUnknown = 2,
  kInvalidArgument = 3,
  kFailedPrecondition = 9,
  kInternal = 13,
};

/// TF_DataType, as far as hora has the types.
enum class DataType : int {
  kFloat = 1,
  kDouble = 2,
  kInt32 = 3,
  kUInt8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kInt64 = 9,
  kBool = 10,
  kBFloat16 = 14,
  kHalf = 19,
};

/// TF_StringView.
struct StringView {
  const char* data;
  std::size_t length;
};

struct Status;
struct Tensor;
struct OpBuilder;
struct ShapeContext;
struct ShapeHandle;
struct KernelBuilder;
struct KernelConstruction;
struct KernelContext;
struct DoneCallback;

using Deallocator = void (*)(void* data, std::size_t bytes, void* argument);
using ShapeFunction = void (*)(ShapeContext*, Status*);
using CreateFunction = void* (*)(KernelConstruction*);
using ComputeFunction = void (*)(void* kernel, KernelContext*);
using ComputeAsyncFunction = void (*)(void* kernel, KernelContext*, DoneCallback*);
using DeleteFunction = void (*)(void* kernel);

/// Functions of TensorFlow, each named like the one it stands for.
struct Api {
  Status* (*new_status)();
  void (*delete_status)(Status*);
  void (*set_status)(Status*, Code, const char* message);
  Code (*get_code)(const Status*);
  const char* (*message)(const Status*);

  Tensor* (*new_tensor)(DataType, const std::int64_t* extents, int rank, void* data, std::size_t bytes,
                        Deallocator, void* argument);
  void (*delete_tensor)(Tensor*);
  DataType (*tensor_type)(const Tensor*);
  int (*num_dims)(const Tensor*);
  std::int64_t (*dim)(const Tensor*, int index);
  void* (*tensor_data)(const Tensor*);

  OpBuilder* (*new_op_definition_builder)(const char* op);
  void (*add_attr)(OpBuilder*, const char* spec);
  void (*add_input)(OpBuilder*, const char* spec);
  void (*add_output)(OpBuilder*, const char* spec);
  void (*set_is_stateful)(OpBuilder*, bool);
  void (*set_shape_inference_function)(OpBuilder*, ShapeFunction);
  void (*register_op_definition)(OpBuilder*, Status*);

  std::int64_t (*shape_num_inputs)(ShapeContext*);
  ShapeHandle* (*new_shape_handle)();
  void (*delete_shape_handle)(ShapeHandle*);
  void (*shape_get_input)(ShapeContext*, int index, ShapeHandle*, Status*);
  void (*shape_set_output)(ShapeContext*, int index, ShapeHandle*, Status*);
  void (*shape_set_unknown)(ShapeContext*, Status*);

  KernelBuilder* (*new_kernel_builder)(const char* op, const char* device, CreateFunction, ComputeFunction,
                                       DeleteFunction);
  KernelBuilder* (*new_async_kernel_builder)(const char* op, const char* device, CreateFunction,
                                             ComputeAsyncFunction, DeleteFunction);
  void (*register_kernel_builder)(const char* kernel, KernelBuilder*, Status*);

  StringView (*construction_get_name)(KernelConstruction*);
  void (*construction_get_attr_size)(KernelConstruction*, const char* attribute, std::int32_t* list_size,
                                     std::int32_t* total_size, Status*);
  void (*construction_get_attr_string)(KernelConstruction*, const char* attribute, char* value,
                                       std::size_t length, Status*);
  void (*construction_get_attr_int64)(KernelConstruction*, const char* attribute, std::int64_t* value,
                                      Status*);
  void (*construction_get_attr_bool)(KernelConstruction*, const char* attribute, unsigned char* value,
                                     Status*);
  void (*construction_failure)(KernelConstruction*, Status*);

  std::int64_t (*iter_id)(KernelContext*);
  int (*num_inputs)(KernelContext*);
  void (*get_input)(KernelContext*, int index, Tensor**, Status*);
  Tensor* (*allocate_output)(KernelContext*, int index, DataType, const std::int64_t* extents, int rank,
                             std::size_t bytes, Status*);
  Tensor* (*forward_input_or_allocate_output)(KernelContext*, const int* inputs, int count, int index,
                                              const std::int64_t* extents, int rank, int* forwarded, Status*);
  void (*set_output)(KernelContext*, int index, const Tensor*, Status*);
  void (*context_failure)(KernelContext*, Status*);
};

}  // namespace hora::tensorflow
