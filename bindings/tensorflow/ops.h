#pragma once

#include "core/op.h"

namespace hora::tensorflow {

/// How TensorFlow calls a collective, such as "HoraAllreduce".
[[nodiscard]] const char* op_name(OpKind op);

/// Tells a number of this rank or its job when the graph runs; see world.h.
inline constexpr auto kWorldOp = "HoraWorld";

/// Makes the ops known to TensorFlow. Throws Error when it refuses.
void register_ops();

}  // namespace hora::tensorflow
