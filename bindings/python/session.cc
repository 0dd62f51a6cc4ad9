#include "session.h"

#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "api/default_session.h"
#include "base/last_signal.h"
#include "caller.h"
#include "handle.h"
#include "tensors.h"
#include "transport/registry.h"

namespace py = pybind11;

namespace hora::python {
namespace {

PyHandle submit_call(Call call, py::object owners, DeviceSource source = {}, Caller caller = find_caller()) {
  call.place = source.place();
  call.caller = std::move(caller);
  std::shared_ptr<Session> session = default_session();
  release_finished_orphans();
  HandlePtr handle = session->submit(std::move(call));
  return {std::move(session), std::move(handle), std::move(owners), std::move(source)};
}

/// What all tensors of a call have in common.
struct Terms {
  int op;
  std::optional<std::string> name;
  int reduce_op;
  std::int64_t root_rank;
  double prescale;
  double postscale;
  std::int32_t process_set;
};

Call to_call(Terms terms) {
  return {.op = static_cast<OpKind>(terms.op),
          .name = std::move(terms.name).value_or(""),
          .tensors = {},
          .reduce = static_cast<ReduceOp>(terms.reduce_op),
          .root = terms.root_rank,
          .prescale = terms.prescale,
          .postscale = terms.postscale,
          .process_set = terms.process_set,
          .splits = {},
          .ranks = {},
          .wire = {},
          .place = {},
          .caller = {}};
}

/// Tensors as tuples of address, shape, dtype and address of the output.
using Ref = std::tuple<std::uintptr_t, Shape, int, std::uintptr_t>;

PyHandle submit(int op, std::optional<std::string> name, const std::vector<Ref>& refs, int reduce_op,
                std::int64_t root_rank, double prescale, double postscale, py::object owners,
                std::int32_t process_set, std::vector<std::int64_t> splits, int device,
                py::object stream_of) {
  const DeviceKind kind = device < 0 ? DeviceKind::kHost : DeviceKind::kCuda;
  Call call = to_call({op, std::move(name), reduce_op, root_rank, prescale, postscale, process_set});
  for (const auto& [address, shape, dtype, output] : refs) {
    call.tensors.push_back({{reinterpret_cast<std::byte*>(address), shape, static_cast<DType>(dtype), kind},
                            reinterpret_cast<std::byte*>(output)});
  }
  call.splits = std::move(splits);
  return submit_call(std::move(call), std::move(owners), {device, std::move(stream_of)});
}

/// `source` is that of the call's first tensor; another one does not fit.
bool add_in_place(Call& call, py::handle tensor, DeviceSource& source) {
  std::optional<ReadTensor> read = read_tensor(tensor);
  if (!read) return false;
  if (call.tensors.empty()) {
    source = std::move(read->source);
  } else if (read->source.device != source.device) {
    return false;
  }
  std::byte* const data = read->ref.data;
  call.tensors.push_back({std::move(read->ref), data});
  return true;
}

/// The short way of an operation in place on a tensor or a list of tensors that `read_tensor` accepts: one
/// call without any into Python. Nothing is done, and None returned, when there is another object among them.
std::optional<PyHandle> submit_in_place(int op, std::optional<std::string> name, const py::object& tensors,
                                        int reduce_op, std::int64_t root_rank, double prescale,
                                        double postscale, std::int32_t process_set) {
  if (reduce_op < 0 || reduce_op >= static_cast<int>(kReduceOpNames.size())) return std::nullopt;
  Call call = to_call({op, std::move(name), reduce_op, root_rank, prescale, postscale, process_set});
  DeviceSource source;
  if (!PyList_Check(tensors.ptr())) {
    if (!add_in_place(call, tensors, source)) return std::nullopt;
    return submit_call(std::move(call), tensors, std::move(source));
  }
  const auto list = py::reinterpret_borrow<py::list>(tensors);
  call.tensors.reserve(list.size());
  for (const py::handle tensor : list) {
    if (!add_in_place(call, tensor, source)) return std::nullopt;
  }
  return submit_call(std::move(call), py::tuple(list), std::move(source));
}

/// The short way of many operations in place, each of one tensor, announced together. Their handles are
/// appended to `handles`; an exception concerns the one after the last of them. Nothing is done, and False
/// returned, when there is a tensor among them that `read_tensor` does not accept. `wire` is the dtype as
/// which floats on GPUs travel.
bool submit_each(int op, const std::vector<std::string>& names, const py::list& tensors, int reduce_op,
                 std::int64_t root_rank, double prescale, double postscale, std::int32_t process_set,
                 py::list handles, std::optional<int> wire) {
  if (reduce_op < 0 || reduce_op >= static_cast<int>(kReduceOpNames.size())) return false;
  std::vector<Call> calls;
  std::vector<DeviceSource> sources(names.size());
  calls.reserve(names.size());
  for (std::size_t at = 0; at < names.size(); ++at) {
    calls.push_back(to_call({op, names[at], reduce_op, root_rank, prescale, postscale, process_set}));
    if (wire) calls.back().wire = static_cast<DType>(*wire);
    if (!add_in_place(calls.back(), tensors[at], sources[at])) return false;
  }
  const std::shared_ptr<Session> session = default_session();
  const Caller caller = find_caller();
  const Session::Together together(*session);
  for (std::size_t at = 0; at < calls.size(); ++at)
    handles.append(submit_call(std::move(calls[at]), tensors[at], std::move(sources[at]), caller));
  return true;
}

/// Operations without a tensor.
PyHandle submit_plain(OpKind op, std::int32_t process_set, std::vector<int> ranks) {
  Call call;
  call.op = op;
  call.process_set = process_set;
  call.ranks = std::move(ranks);
  return submit_call(std::move(call), py::none());
}

/// Not having been able to free memory is no error of the call that needed some.
void call_and_forget_errors(PyObject* function) {
  try {
    static_cast<void>(py::handle(function)());
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("free_gpu_memory");
  }
}

void refuse(int op, const std::optional<std::string>& name, const std::string& reason,
            std::int32_t process_set) {
  if (!has_default_session()) return;
  default_session()->refuse(static_cast<OpKind>(op), name.value_or(""), process_set, reason, find_caller());
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
  result["cache_hits"] = counters.cache_hits.load();
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
  module.def(
      "init",
      [](std::vector<int> ranks, std::optional<int> communicator, std::vector<std::string> library_folders,
         py::object free_gpu_memory, std::optional<std::tuple<std::uintptr_t, int, int>> main_thread) {
        FrontEndServices services;
        services.library_folders = std::move(library_folders);
        // Never given back: the session may end after the interpreter.
        if (PyObject* const function = free_gpu_memory.release().ptr(); function != Py_None)
          services.free_gpu_memory = [function] { call_and_forget_errors(function); };
        if (main_thread) {
          const auto [thread, signal, file] = *main_thread;
          services.main_thread = ThreadStack{static_cast<pthread_t>(thread), signal, file};
        }
        const py::gil_scoped_release released;
        init_default_session({std::move(ranks), communicator}, std::move(services));
      },
      py::arg("ranks") = std::vector<int>(), py::arg("communicator") = py::none(),
      py::arg("library_folders") = std::vector<std::string>(), py::arg("free_gpu_memory") = py::none(),
      py::arg("main_thread") = py::none());
  module.def("shutdown", &leave_default_session, py::arg("cause") = "", unlocked);
  module.def("failed_elsewhere",
             [] { return has_default_session() && default_session()->failed_elsewhere(); });
  module.def("renew_last_signal", &renew_last_signal);
  module.def("give_up", &give_up_default_session, py::arg("reason"), unlocked);
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
  module.def("submit", &submit, py::arg("op"), py::arg("name").none(true), py::arg("refs"),
             py::arg("reduce_op"), py::arg("root_rank"), py::arg("prescale"), py::arg("postscale"),
             py::arg("owners"), py::arg("process_set") = kGlobalSet,
             py::arg("splits") = std::vector<std::int64_t>(), py::arg("device") = -1,
             py::arg("stream_of") = py::none());
  module.def("submit_in_place", &submit_in_place, py::arg("op"), py::arg("name").none(true),
             py::arg("tensors"), py::arg("reduce_op"), py::arg("root_rank"), py::arg("prescale"),
             py::arg("postscale"), py::arg("process_set"));
  module.def("submit_each", &submit_each, py::arg("op"), py::arg("names"), py::arg("tensors"),
             py::arg("reduce_op"), py::arg("root_rank"), py::arg("prescale"), py::arg("postscale"),
             py::arg("process_set"), py::arg("handles"), py::arg("wire") = py::none());
  module.def("register_tensor_type", &register_tensor_type, py::arg("type"), py::arg("dtypes") = py::none(),
             py::arg("use_table") = true, py::arg("stream_of") = py::none());
  module.def(
      "barrier", [](std::int32_t process_set) { return submit_plain(OpKind::kBarrier, process_set, {}); },
      py::arg("process_set") = kGlobalSet);
  module.def(
      "join",
      [](int device) {
        Call call;
        call.op = OpKind::kJoin;
        // Nothing is recorded on its stream.
        return submit_call(std::move(call), py::none(),
                           DeviceSource{device, py::cpp_function([](int) { return 0; })});
      },
      py::arg("device") = -1);
  module.def(
      "add_process_set",
      [](std::vector<int> ranks) {
        return submit_plain(OpKind::kAddProcessSet, kGlobalSet, std::move(ranks));
      },
      py::arg("ranks"));
  module.def(
      "remove_process_set",
      [](std::vector<int> ranks) {
        return submit_plain(OpKind::kRemoveProcessSet, kGlobalSet, std::move(ranks));
      },
      py::arg("ranks"));
  module.def(
      "process_set_ranks", [](std::int32_t id) { return default_session()->process_set(id); }, py::arg("id"));
  module.def("require_working", [] { default_session()->require_working(); });
  module.def("caller", [] {
    const Caller caller = find_caller();
    return caller == nullptr ? std::string() : *caller;
  });
  module.def("describe_place", &describe_place, py::arg("file"), py::arg("line"));
  module.def("refuse", &refuse, py::arg("op"), py::arg("name").none(true), py::arg("reason"),
             py::arg("process_set") = kGlobalSet);
  module.def(
      "allocate",
      [](std::size_t bytes) {
        const py::gil_scoped_release unlocked;
        return Output{
            default_session()->allocate(bytes), {static_cast<std::int64_t>(bytes)}, DType::kUInt8, {}};
      },
      py::arg("bytes"));
  module.def(
      "gpu_probe",
      [](const std::vector<std::string>& library_folders) {
        const GpuProbe probe = probe_gpus(library_folders);
        return py::make_tuple(probe.has_driver, probe.driver, probe.nccl_version, probe.nccl,
                              probe.nccl_features);
      },
      py::arg("library_folders") = std::vector<std::string>());
  module.def("mpi_allows_threads", &mpi_allows_threads);
  module.def("mpi_probe", [] {
    const MpiProbe probe = probe_mpi();
    return py::make_tuple(probe.usable, probe.text);
  });
}

}  // namespace hora::python
