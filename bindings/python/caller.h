#pragma once

#include <optional>
#include <string>

#include "core/request.h"

namespace hora::python {

/// Where the program made the call that this thread is in: file and line of the innermost frame that is not
/// hora's own nor a framework's. Null where there is none, as in a thread of the framework. Made once for
/// each place, then found by its bytecode. Called with the interpreter lock held.
[[nodiscard]] Caller find_caller();

/// A place in a file as an error shows it; nothing for hora's own and a framework's.
[[nodiscard]] std::optional<std::string> describe_place(const std::string& file, int line);

}  // namespace hora::python
