#pragma once

#include <pybind11/pybind11.h>

namespace hora::python {

/// The functions of the default session.
void bind_session(pybind11::module_& module);

}  // namespace hora::python
