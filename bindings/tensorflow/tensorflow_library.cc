#include "tensorflow_library.h"

#include <fmt/format.h>

#include "backends/library_search.h"
#include "base/text.h"

namespace hora::tensorflow {
namespace {

// Has a std::function of libstdc++ among its arguments, as does what `keep` of done_callback.h reads.
constexpr auto kTakesFunction =
    "_ZN10tensorflow16ThreadPoolDevice12ComputeAsyncEPNS_13AsyncOpKernelEPNS_15OpKernelContextE"
    "St8functionIFvvEE";

void bind_tensors(SymbolBinder& binder, Api& api) {
  binder.bind(api.new_status, "TF_NewStatus");
  binder.bind(api.delete_status, "TF_DeleteStatus");
  binder.bind(api.set_status, "TF_SetStatus");
  binder.bind(api.get_code, "TF_GetCode");
  binder.bind(api.message, "TF_Message");
  binder.bind(api.new_tensor, "TF_NewTensor");
  binder.bind(api.delete_tensor, "TF_DeleteTensor");
  binder.bind(api.tensor_type, "TF_TensorType");
  binder.bind(api.num_dims, "TF_NumDims");
  binder.bind(api.dim, "TF_Dim");
  binder.bind(api.tensor_data, "TF_TensorData");
}

void bind_op_definitions(SymbolBinder& binder, Api& api) {
  binder.bind(api.new_op_definition_builder, "TF_NewOpDefinitionBuilder");
  binder.bind(api.add_attr, "TF_OpDefinitionBuilderAddAttr");
  binder.bind(api.add_input, "TF_OpDefinitionBuilderAddInput");
  binder.bind(api.add_output, "TF_OpDefinitionBuilderAddOutput");
  binder.bind(api.set_is_stateful, "TF_OpDefinitionBuilderSetIsStateful");
  binder.bind(api.set_shape_inference_function, "TF_OpDefinitionBuilderSetShapeInferenceFunction");
  binder.bind(api.register_op_definition, "TF_RegisterOpDefinition");
  binder.bind(api.shape_num_inputs, "TF_ShapeInferenceContextNumInputs");
  binder.bind(api.new_shape_handle, "TF_NewShapeHandle");
  binder.bind(api.delete_shape_handle, "TF_DeleteShapeHandle");
  binder.bind(api.shape_get_input, "TF_ShapeInferenceContextGetInput");
  binder.bind(api.shape_set_output, "TF_ShapeInferenceContextSetOutput");
  binder.bind(api.shape_set_unknown, "TF_ShapeInferenceContextSetUnknownShape");
}

void bind_kernels(SymbolBinder& binder, Api& api) {
  binder.bind(api.new_kernel_builder, "TF_NewKernelBuilder");
  binder.bind(api.new_async_kernel_builder, "TF_NewAsyncKernelBuilder");
  binder.bind(api.register_kernel_builder, "TF_RegisterKernelBuilder");
  binder.bind(api.construction_get_name, "TF_OpKernelConstruction_GetName");
  binder.bind(api.construction_get_attr_size, "TF_OpKernelConstruction_GetAttrSize");
  binder.bind(api.construction_get_attr_string, "TF_OpKernelConstruction_GetAttrString");
  binder.bind(api.construction_get_attr_int64, "TF_OpKernelConstruction_GetAttrInt64");
  binder.bind(api.construction_get_attr_bool, "TF_OpKernelConstruction_GetAttrBool");
  binder.bind(api.construction_failure, "TF_OpKernelConstruction_Failure");
  binder.bind(api.iter_id, "TF_GetIterId");
  binder.bind(api.num_inputs, "TF_NumInputs");
  binder.bind(api.get_input, "TF_GetInput");
  binder.bind(api.allocate_output, "TF_AllocateOutput");
  binder.bind(api.forward_input_or_allocate_output, "TF_ForwardInputOrAllocateOutput");
  binder.bind(api.set_output, "TF_SetOutput");
  binder.bind(api.context_failure, "TF_OpKernelContext_Failure");
  void* takes_function = nullptr;
  binder.bind(takes_function, kTakesFunction);
}

}  // namespace

TensorFlowLibrary open_tensorflow() {
  const FoundLibrary found = find_library({.path = {},
                                           .setting = {},
                                           .symbol = "TF_NewAsyncKernelBuilder",
                                           .names = {"libtensorflow_framework.so.2", "libtensorflow_cc.so.2"},
                                           .folders = {}});
  TensorFlowLibrary library;
  if (found.place.empty()) {
    library.problem = fmt::format("TensorFlow's libraries were not found ({})", join(found.tried, "; "));
    return library;
  }
  SymbolBinder binder(found);
  bind_tensors(binder, library.api);
  bind_op_definitions(binder, library.api);
  bind_kernels(binder, library.api);
  if (!binder.missing().empty()) {
    library.problem = fmt::format("this TensorFlow ({}) lacks {}", found.place, join(binder.missing(), ", "));
  }
  return library;
}

}  // namespace hora::tensorflow
