#pragma once

#include <optional>

#include "core/handle.h"
#include "core/request.h"
#include "core/tensor_ref.h"

namespace hora {

/// A request together with the memory of this rank it is about.
struct Submission {
  Request request;
  TensorRef input;
  TensorRef output;  ///< same memory as the input for an operation in place; no data where the op allocates
  std::optional<Output> result;  ///< filled by an op that allocates its output
  HandlePtr handle;
};

}  // namespace hora
