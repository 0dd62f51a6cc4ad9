#include "ops.h"

#include <initializer_list>

#include "base/error.h"
#include "status.h"

namespace hora::tensorflow {
namespace {

constexpr auto kDTypeList =
    "T: list({bool, uint8, int8, int16, int32, int64, half, bfloat16, float, double}) >= 1";
constexpr auto kDTypeOne = "T: {bool, uint8, int8, int16, int32, int64, half, bfloat16, float, double}";

struct OpDefinition {
  const char* name;
  std::initializer_list<const char*> attributes;
  std::initializer_list<const char*> inputs;
  std::initializer_list<const char*> outputs;
  ShapeFunction shape_function;
};

/// Each output has the shape of the input with its number.
void keep_shapes(ShapeContext* context, Status* status) {
  ShapeHandle* const shape = api().new_shape_handle();
  for (int tensor = 0; tensor < api().shape_num_inputs(context); ++tensor) {
    api().shape_get_input(context, tensor, shape, status);
    if (api().get_code(status) == Code::kOk) api().shape_set_output(context, tensor, shape, status);
    if (api().get_code(status) != Code::kOk) break;
  }
  api().delete_shape_handle(shape);
}

/// TensorFlow's C interface has no way to say that only one extent is unknown; Python adds the others.
void unknown_shapes(ShapeContext* context, Status* status) {
  api().shape_set_unknown(context, status);
}

/// Ops are stateful, so that no optimizer of graphs runs one by itself, drops one or merges two: ranks would
/// wait for each other. That functions do not run stateful ops one after the other is arranged in Python.
void register_op(const OpDefinition& definition) {
  OpBuilder* const builder = api().new_op_definition_builder(definition.name);
  for (const char* const attribute : definition.attributes) api().add_attr(builder, attribute);
  for (const char* const input : definition.inputs) api().add_input(builder, input);
  for (const char* const output : definition.outputs) api().add_output(builder, output);
  api().set_is_stateful(builder, true);
  api().set_shape_inference_function(builder, definition.shape_function);
  checked(api().register_op_definition, builder);
}

}  // namespace

const char* op_name(OpKind op) {
  switch (op) {
    case OpKind::kAllreduce:
      return "HoraAllreduce";
    case OpKind::kAllgather:
      return "HoraAllgather";
    case OpKind::kBroadcast:
      return "HoraBroadcast";
    case OpKind::kAlltoall:
      return "HoraAlltoall";
    case OpKind::kReducescatter:
      return "HoraReducescatter";
    case OpKind::kJoin:
      return "HoraJoin";
    default:
      raise(ErrorKind::kInvalidArgument, "TensorFlow has no op for {}", name(op));
  }
}

void register_ops() {
  constexpr auto kName = "tensor_name: string = ''";
  constexpr auto kAddsNodeName = "adds_node_name: bool = false";
  constexpr auto kWaits = "waits: bool = false";
  constexpr auto kProcessSet = "process_set: int = 0";
  constexpr auto kCaller = "caller: string = ''";
  constexpr auto kReduceOp = "reduce_op: int";
  constexpr auto kPrescale = "prescale: string = '1'";
  constexpr auto kPostscale = "postscale: string = '1'";
  constexpr auto kPatience = "patience_us: int = 0";
  register_op({op_name(OpKind::kAllreduce),
               {kDTypeList, kReduceOp, kPrescale, kPostscale, kName, kAddsNodeName, kWaits, kPatience,
                kProcessSet, kCaller},
               {"tensors: T"},
               {"results: T"},
               keep_shapes});
  register_op({op_name(OpKind::kAllgather),
               {kDTypeList, kName, kAddsNodeName, kWaits, kProcessSet, kCaller},
               {"tensors: T"},
               {"results: T", "rows: int64"},
               unknown_shapes});
  register_op({op_name(OpKind::kBroadcast),
               {kDTypeList, "root_rank: int", kName, kAddsNodeName, kWaits, kProcessSet, kCaller},
               {"tensors: T"},
               {"results: T"},
               keep_shapes});
  register_op({op_name(OpKind::kAlltoall),
               {kDTypeOne, kName, kAddsNodeName, kWaits, kProcessSet, kCaller},
               {"tensor: T", "splits: int64"},
               {"result: T", "received: int64"},
               unknown_shapes});
  register_op(
      {op_name(OpKind::kReducescatter),
       {kDTypeList, kReduceOp, kPrescale, kPostscale, kName, kAddsNodeName, kWaits, kProcessSet, kCaller},
       {"tensors: T"},
       {"results: T"},
       unknown_shapes});
  register_op({op_name(OpKind::kJoin), {kWaits}, {}, {"last: int64"}, unknown_shapes});
  register_op({kWorldOp, {"number: string", kProcessSet}, {}, {"value: int64"}, unknown_shapes});
}

}  // namespace hora::tensorflow
