#pragma once

#include "core/request.h"

namespace hora::python {

/// Where the program made the call that this thread is in: file and line of the innermost frame that is not
/// hora's own nor a framework's. Null where there is none, as in a thread of the framework. Made once for
/// each place, then found by its bytecode. Called with the interpreter lock held.
[[nodiscard]] Caller find_caller();

}  // namespace hora::python
