#include <pybind11/pybind11.h>

#include "errors.h"
#include "handle.h"
#include "session.h"
#include "types.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "The core of hora; see _core.pyi.";
  hora::python::register_errors();
  hora::python::bind_types(module);
  hora::python::bind_handle(module);
  hora::python::bind_session(module);
}
