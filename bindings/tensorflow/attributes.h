#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "core/op.h"
#include "core/request.h"
#include "tensorflow_api.h"

namespace hora::tensorflow {

/// What a node of a graph, or a call in eager mode, says besides its tensors.
struct Attributes {
  OpKind op = OpKind::kAllreduce;
  std::string name;      ///< of the call, see Call::name
  bool is_node = false;  ///< it is named after a node of a graph
  bool waits = false;    ///< in eager mode: the caller's thread waits anyway, so it may as well do the work
  Duration patience{};   ///< in a graph: so long TensorFlow's thread works for the call before others do
  ReduceOp reduce = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  std::int64_t root = 0;
  std::int32_t process_set = kGlobalSet;
  Caller caller;  ///< see Call::caller
};

[[nodiscard]] constexpr bool reduces(OpKind op) {
  return op == OpKind::kAllreduce || op == OpKind::kReducescatter;
}

/// Throws Error for one that is missing or has no meaning.
[[nodiscard]] Attributes read_attributes(OpKind op, KernelConstruction& construction);

[[nodiscard]] std::string read_string(KernelConstruction& construction, const char* attribute);
[[nodiscard]] std::int64_t read_integer(KernelConstruction& construction, const char* attribute);

}  // namespace hora::tensorflow
