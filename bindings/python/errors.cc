#include "errors.h"

#include <pybind11/pybind11.h>

#include "base/error.h"

namespace py = pybind11;

namespace hora::python {
namespace {

py::object exception_for(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return py::reinterpret_borrow<py::object>(PyExc_ValueError);
    case ErrorKind::kStartup:
      return py::reinterpret_borrow<py::object>(PyExc_RuntimeError);
    case ErrorKind::kNotInitialized:
      return py::module_::import("hora.errors").attr("NotInitializedError");
    case ErrorKind::kMismatch:
    case ErrorKind::kSessionFailed:
      break;
  }
  return py::module_::import("hora.errors").attr("HorovodInternalError");
}

}  // namespace

void register_errors() {
  py::register_local_exception_translator([](std::exception_ptr raised) {
    try {
      if (raised) std::rethrow_exception(raised);
    } catch (const Error& error) {
      PyErr_SetString(exception_for(error.kind()).ptr(), error.what());
    }
  });
}

}  // namespace hora::python
