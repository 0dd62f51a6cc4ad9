#include "session.h"

#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>

#include "api/default_session.h"
#include "handle.h"
#include "transport/registry.h"

namespace py = pybind11;

namespace hora::python {
namespace {

TensorRef to_ref(std::uintptr_t address, const Shape& shape, int dtype) {
  return {reinterpret_cast<std::byte*>(address), shape, static_cast<DType>(dtype), DeviceKind::kHost};
}

PyHandle submit(int op, std::optional<std::string> name, std::uintptr_t address, const Shape& shape,
                int dtype, std::uintptr_t output, int reduce_op, std::int64_t root_rank, double prescale,
                double postscale, py::object owners) {
  release_finished_orphans();
  std::shared_ptr<Session> session = default_session();
  HandlePtr handle = session->submit({.op = static_cast<OpKind>(op),
                                      .name = std::move(name).value_or(""),
                                      .input = to_ref(address, shape, dtype),
                                      .output = to_ref(output, shape, dtype),
                                      .reduce = static_cast<ReduceOp>(reduce_op),
                                      .root = root_rank,
                                      .prescale = prescale,
                                      .postscale = postscale});
  return {std::move(session), std::move(handle), std::move(owners)};
}

void refuse(int op, const std::optional<std::string>& name, const std::string& reason) {
  if (has_default_session()) default_session()->refuse(static_cast<OpKind>(op), name.value_or(""), reason);
}

py::dict counters() {
  const auto session = default_session();
  const Counters& counters = session->counters();
  py::dict result;
  result["plans"] = counters.plans.load();
  result["batches"] = counters.batches.load();
  result["tensors"] = counters.tensors.load();
  result["bytes"] = counters.bytes.load();
  result["errors"] = counters.errors.load();
  result["messages"] = counters.messages.load();
  result["message_bytes"] = counters.message_bytes.load();
  return result;
}

template <auto Member>
auto of_topology() {
  return [] { return (default_session()->topology().*Member)(); };
}

}  // namespace

void bind_session(py::module_& module) {
  const auto unlocked = py::call_guard<py::gil_scoped_release>();
  module.def("init", &init_default_session, unlocked);
  module.def("shutdown", &shutdown_default_session, unlocked);
  module.def("is_initialized", &has_default_session);
  module.def("rank", of_topology<&Topology::rank>());
  module.def("size", of_topology<&Topology::size>());
  module.def("local_rank", of_topology<&Topology::local_rank>());
  module.def("local_size", of_topology<&Topology::local_size>());
  module.def("cross_rank", of_topology<&Topology::cross_rank>());
  module.def("cross_size", of_topology<&Topology::cross_size>());
  module.def("is_homogeneous", of_topology<&Topology::is_homogeneous>());
  module.def("transport", [] { return default_session()->transport_name(); });
  module.def("counters", &counters);
  module.def("submit", &submit, py::arg("op"), py::arg("name").none(true), py::arg("address"),
             py::arg("shape"), py::arg("dtype"), py::arg("output"), py::arg("reduce_op"),
             py::arg("root_rank"), py::arg("prescale"), py::arg("postscale"), py::arg("owners"));
  module.def("refuse", &refuse, py::arg("op"), py::arg("name").none(true), py::arg("reason"));
  module.def("mpi_probe", [] {
    const MpiProbe probe = probe_mpi();
    return py::make_tuple(probe.usable, probe.text);
  });
}

}  // namespace hora::python
