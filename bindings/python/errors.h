#pragma once

namespace hora::python {

/// Errors of the core become the exceptions of `hora.errors`, ValueError and RuntimeError.
void register_errors();

}  // namespace hora::python
