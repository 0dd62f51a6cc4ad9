#pragma once

#include <pybind11/pybind11.h>

namespace hora::python {

/// The tables of names: ops, element types, reductions, settings.
void bind_types(pybind11::module_& module);

}  // namespace hora::python
