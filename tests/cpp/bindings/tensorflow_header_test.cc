// Compares bindings/tensorflow/tensorflow_api.h with TensorFlow's headers; all of it is done by the compiler.

#include <tensorflow/c/kernels.h>
#include <tensorflow/c/ops.h>

#include <cstddef>

#include "backends/same_kind.h"
#include "tensorflow/tensorflow_api.h"

namespace hora::tensorflow {
namespace {

using testing::is_declared_like;
using testing::same_value;

static_assert(is_declared_like<decltype(Api::new_status), decltype(TF_NewStatus)>);
static_assert(is_declared_like<decltype(Api::delete_status), decltype(TF_DeleteStatus)>);
static_assert(is_declared_like<decltype(Api::set_status), decltype(TF_SetStatus)>);
static_assert(is_declared_like<decltype(Api::get_code), decltype(TF_GetCode)>);
static_assert(is_declared_like<decltype(Api::message), decltype(TF_Message)>);
static_assert(is_declared_like<decltype(Api::new_tensor), decltype(TF_NewTensor)>);
static_assert(is_declared_like<decltype(Api::delete_tensor), decltype(TF_DeleteTensor)>);
static_assert(is_declared_like<decltype(Api::tensor_type), decltype(TF_TensorType)>);
static_assert(is_declared_like<decltype(Api::num_dims), decltype(TF_NumDims)>);
static_assert(is_declared_like<decltype(Api::dim), decltype(TF_Dim)>);
static_assert(is_declared_like<decltype(Api::tensor_data), decltype(TF_TensorData)>);
static_assert(
    is_declared_like<decltype(Api::new_op_definition_builder), decltype(TF_NewOpDefinitionBuilder)>);
static_assert(is_declared_like<decltype(Api::add_attr), decltype(TF_OpDefinitionBuilderAddAttr)>);
static_assert(is_declared_like<decltype(Api::add_input), decltype(TF_OpDefinitionBuilderAddInput)>);
static_assert(is_declared_like<decltype(Api::add_output), decltype(TF_OpDefinitionBuilderAddOutput)>);
static_assert(
    is_declared_like<decltype(Api::set_is_stateful), decltype(TF_OpDefinitionBuilderSetIsStateful)>);
static_assert(is_declared_like<decltype(Api::set_shape_inference_function),
                               decltype(TF_OpDefinitionBuilderSetShapeInferenceFunction)>);
static_assert(is_declared_like<decltype(Api::register_op_definition), decltype(TF_RegisterOpDefinition)>);
static_assert(is_declared_like<decltype(Api::shape_num_inputs), decltype(TF_ShapeInferenceContextNumInputs)>);
static_assert(is_declared_like<decltype(Api::new_shape_handle), decltype(TF_NewShapeHandle)>);
static_assert(is_declared_like<decltype(Api::delete_shape_handle), decltype(TF_DeleteShapeHandle)>);
static_assert(is_declared_like<decltype(Api::shape_get_input), decltype(TF_ShapeInferenceContextGetInput)>);
static_assert(is_declared_like<decltype(Api::shape_set_output), decltype(TF_ShapeInferenceContextSetOutput)>);
static_assert(
    is_declared_like<decltype(Api::shape_set_unknown), decltype(TF_ShapeInferenceContextSetUnknownShape)>);
static_assert(is_declared_like<decltype(Api::new_kernel_builder), decltype(TF_NewKernelBuilder)>);
static_assert(is_declared_like<decltype(Api::new_async_kernel_builder), decltype(TF_NewAsyncKernelBuilder)>);
static_assert(is_declared_like<decltype(Api::register_kernel_builder), decltype(TF_RegisterKernelBuilder)>);
static_assert(
    is_declared_like<decltype(Api::construction_get_name), decltype(TF_OpKernelConstruction_GetName)>);
static_assert(is_declared_like<decltype(Api::construction_get_attr_size),
                               decltype(TF_OpKernelConstruction_GetAttrSize)>);
static_assert(is_declared_like<decltype(Api::construction_get_attr_string),
                               decltype(TF_OpKernelConstruction_GetAttrString)>);
static_assert(is_declared_like<decltype(Api::construction_get_attr_int64),
                               decltype(TF_OpKernelConstruction_GetAttrInt64)>);
static_assert(is_declared_like<decltype(Api::construction_get_attr_bool),
                               decltype(TF_OpKernelConstruction_GetAttrBool)>);
static_assert(
    is_declared_like<decltype(Api::construction_failure), decltype(TF_OpKernelConstruction_Failure)>);
static_assert(is_declared_like<decltype(Api::iter_id), decltype(TF_GetIterId)>);
static_assert(is_declared_like<decltype(Api::num_inputs), decltype(TF_NumInputs)>);
static_assert(is_declared_like<decltype(Api::get_input), decltype(TF_GetInput)>);
static_assert(is_declared_like<decltype(Api::allocate_output), decltype(TF_AllocateOutput)>);
static_assert(is_declared_like<decltype(Api::forward_input_or_allocate_output),
                               decltype(TF_ForwardInputOrAllocateOutput)>);
static_assert(is_declared_like<decltype(Api::set_output), decltype(TF_SetOutput)>);
static_assert(is_declared_like<decltype(Api::context_failure), decltype(TF_OpKernelContext_Failure)>);

static_assert(same_value(Code::kOk, TF_OK));
static_assert(same_value(Code::kUnknown, TF_UNKNOWN));
static_assert(same_value(Code::kInvalidArgument, TF_INVALID_ARGUMENT));
static_assert(same_value(Code::kFailedPrecondition, TF_FAILED_PRECONDITION));
static_assert(same_value(Code::kInternal, TF_INTERNAL));

static_assert(same_value(DataType::kFloat, TF_FLOAT));
static_assert(same_value(DataType::kDouble, TF_DOUBLE));
static_assert(same_value(DataType::kInt32, TF_INT32));
static_assert(same_value(DataType::kUInt8, TF_UINT8));
static_assert(same_value(DataType::kInt16, TF_INT16));
static_assert(same_value(DataType::kInt8, TF_INT8));
static_assert(same_value(DataType::kInt64, TF_INT64));
static_assert(same_value(DataType::kBool, TF_BOOL));
static_assert(same_value(DataType::kBFloat16, TF_BFLOAT16));
static_assert(same_value(DataType::kHalf, TF_HALF));

static_assert(sizeof(StringView) == sizeof(TF_StringView));
static_assert(offsetof(StringView, length) == offsetof(TF_StringView, len));

}  // namespace
}  // namespace hora::tensorflow
