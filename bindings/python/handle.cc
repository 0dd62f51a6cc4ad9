#include "handle.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace hora::python {
namespace {

using namespace std::chrono_literals;

// How often a waiting thread looks for signals, such as Ctrl-C.
constexpr auto kSignalInterval = 100ms;

/// Operations whose handle was dropped while they ran; guarded by the interpreter lock. Never destroyed,
/// because the interpreter is gone when static objects are.
std::vector<PyHandle>& orphans() {
  static auto* list = new std::vector<PyHandle>;
  return *list;
}

py::buffer_info buffer_of(const Output& output) {
  return {output.data.get(), 1, py::format_descriptor<std::uint8_t>::format(),
          static_cast<py::ssize_t>(output.bytes())};
}

}  // namespace

PyHandle::~PyHandle() {
  if (!handle_) return;
  if (handle_->done()) {
    finish();
  } else {
    orphans().push_back(std::move(*this));
  }
}

bool PyHandle::poll() {
  if (!handle_->done()) return false;
  finish();
  return true;
}

void PyHandle::wait() {
  for (bool done = handle_->done(); !done;) {
    {
      const py::gil_scoped_release unlocked;
      done = session_->wait_until(*handle_, Clock::now() + kSignalInterval);
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
  finish();
  if (handle_->error() != nullptr) throw *handle_->error();
}

Output PyHandle::output(std::size_t tensor) const {
  if (!handle_->done() || tensor >= handle_->outputs().size())
    throw py::value_error("this operation has no output of its own");
  return handle_->outputs()[tensor];
}

void PyHandle::finish() {
  if (!owners_) return;
  session_->release(*handle_);
  owners_ = py::object();
}

void release_finished_orphans() {
  auto& list = orphans();
  if (list.empty()) return;
  // The destructor of one that still runs puts it back.
  const std::vector<PyHandle> all = std::exchange(list, {});
}

void bind_handle(py::module_& module) {
  py::class_<Output>(module, "Output", py::buffer_protocol())
      .def_buffer([](const Output& output) { return buffer_of(output); })
      .def_property_readonly("shape", [](const Output& output) { return py::tuple(py::cast(output.shape)); })
      .def_property_readonly("dtype", [](const Output& output) { return static_cast<int>(output.dtype); })
      .def_readonly("sizes", &Output::sizes);

  py::class_<PyHandle>(module, "Handle")
      .def("poll", &PyHandle::poll)
      .def("wait", &PyHandle::wait)
      .def("output", &PyHandle::output, py::arg("tensor") = 0)
      .def("value", &PyHandle::value);
}

}  // namespace hora::python
