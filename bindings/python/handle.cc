#include "handle.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>
#include <vector>

#include "dlpack.h"

namespace py = pybind11;

namespace hora::python {
namespace {

using namespace std::chrono_literals;

// How often a waiting thread looks for signals, such as Ctrl-C.
constexpr auto kSignalInterval = 100ms;

/// Operations whose handle was dropped while they ran; guarded by the interpreter lock. Never destroyed,
/// because the interpreter is gone when static objects are.
struct Orphans {
  std::vector<PyHandle> in_host_memory;
  std::deque<PyHandle> on_devices;  // complete in this order, but for a few
};

Orphans& orphans() {
  static auto* lists = new Orphans;
  return *lists;
}

py::buffer_info buffer_of(const Output& output) {
  return {output.data.get(), 1, py::format_descriptor<std::uint8_t>::format(),
          static_cast<py::ssize_t>(output.bytes())};
}

}  // namespace

PyHandle::~PyHandle() {
  if (!handle_) return;
  if (handle_->done()) free_name();
  if (is_complete()) return;
  if (handle_->device() == DeviceKind::kHost) {
    orphans().in_host_memory.push_back(std::move(*this));
  } else {
    orphans().on_devices.push_back(std::move(*this));
  }
}

bool PyHandle::is_complete() const {
  return handle_->done() && (handle_->work() == nullptr || handle_->work()->is_complete());
}

bool PyHandle::poll() {
  if (!is_complete()) return false;
  free_name();
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
  free_name();
  if (handle_->device() != DeviceKind::kHost) release_finished_orphans();
  if (handle_->error() != nullptr) throw *handle_->error();
  if (handle_->work() == nullptr) return;
  const DevicePlace place = source_.place();
  const py::gil_scoped_release unlocked;
  session_->order_before(*handle_, place.stream);
}

Output PyHandle::output(std::size_t tensor) const {
  if (!handle_->done() || tensor >= handle_->outputs().size())
    throw py::value_error("this operation has no output of its own");
  return handle_->outputs()[tensor];
}

void PyHandle::free_name() {
  if (std::exchange(is_name_free_, true)) return;
  session_->release(*handle_);
  if (is_complete()) owners_ = py::object();
}

void release_finished_orphans() {
  auto& [in_host_memory, on_devices] = orphans();
  // The destructor of one that still runs puts it back.
  if (!in_host_memory.empty()) const std::vector<PyHandle> all = std::exchange(in_host_memory, {});
  // Of those on devices only the first are looked at: they are complete in about this order.
  for (std::size_t left = on_devices.size(); left > 0; --left) {
    PyHandle first = std::move(on_devices.front());
    on_devices.pop_front();
    const bool is_launched = first.handle_->done();
    const bool is_complete = first.is_complete();
    // Its destructor puts back what still runs: at the end what waits for other ranks, else where it was.
    if (is_complete || !is_launched) continue;
    on_devices.push_front(std::move(first));
    break;
  }
}

void bind_handle(py::module_& module) {
  py::class_<Output>(module, "Output", py::buffer_protocol())
      .def_buffer([](const Output& output) { return buffer_of(output); })
      .def_property_readonly("shape", [](const Output& output) { return py::tuple(py::cast(output.shape)); })
      .def_property_readonly("dtype", [](const Output& output) { return static_cast<int>(output.dtype); })
      .def_property_readonly(
          "address", [](const Output& output) { return reinterpret_cast<std::uintptr_t>(output.data.get()); })
      .def_readonly("device", &Output::device)
      .def("__dlpack__", [](const Output& output, const py::kwargs&) { return to_dlpack(output); })
      .def("__dlpack_device__", &dlpack_device)
      .def_readonly("sizes", &Output::sizes);

  py::class_<PyHandle>(module, "Handle")
      .def("poll", &PyHandle::poll)
      .def("wait", &PyHandle::wait)
      .def("output", &PyHandle::output, py::arg("tensor") = 0)
      .def("value", &PyHandle::value);
}

}  // namespace hora::python
