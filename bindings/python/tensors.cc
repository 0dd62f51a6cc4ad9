#include "tensors.h"

#include <cstdint>
#include <unordered_map>
#include <utility>

#include "dlpack.h"

namespace py = pybind11;

namespace hora::python {
namespace {

// Part of DLPack's C interface, too.
struct DLPackExchangeAPI {
  struct {
    std::uint32_t major;
    std::uint32_t minor;
  } version;
  DLPackExchangeAPI* previous;
  void* allocate;
  void* export_tensor;
  void* import_tensor;
  int (*view_tensor)(void* object, DLTensor* out);
  void* current_stream;
};

constexpr std::uint32_t kMajorVersion = 1;

std::optional<DType> dtype_of(DLDataType type) {
  if (type.lanes != 1) return std::nullopt;
  switch (type.code << 8 | type.bits) {
    case 0 << 8 | 8:
      return DType::kInt8;
    case 0 << 8 | 16:
      return DType::kInt16;
    case 0 << 8 | 32:
      return DType::kInt32;
    case 0 << 8 | 64:
      return DType::kInt64;
    case 1 << 8 | 8:
      return DType::kUInt8;
    case 2 << 8 | 16:
      return DType::kFloat16;
    case 2 << 8 | 32:
      return DType::kFloat32;
    case 2 << 8 | 64:
      return DType::kFloat64;
    case 4 << 8 | 16:
      return DType::kBFloat16;
    case 6 << 8 | 8:
      return DType::kBool;
    default:
      return std::nullopt;
  }
}

bool is_compact(const DLTensor& tensor) {
  std::int64_t expected = 1;
  for (std::int32_t axis = tensor.ndim - 1; axis >= 0; --axis) {
    const std::int64_t extent = tensor.shape[axis];
    if (extent == 0) return true;
    if (extent != 1 && tensor.strides != nullptr && tensor.strides[axis] != expected) return false;
    expected *= extent;
  }
  return true;
}

/// PyTorch keeps some tensors negated, the imaginary parts of conjugated numbers. They have gaps unless they
/// are of one element, so only those are asked.
bool may_be_negated(py::handle tensor, const Shape& shape) {
  return element_count(shape) == 1 && tensor.attr("is_neg")().cast<bool>();
}

/// How tensors of one type are read.
struct Reader {
  const DLPackExchangeAPI* table = nullptr;
  PyObject* dtypes = nullptr;     ///< for reading through attributes
  PyObject* stream_of = nullptr;  ///< see DeviceSource
};

/// By type; guarded by the interpreter lock. Never destroyed, and the types are kept, so that an address
/// always means the same type.
std::unordered_map<PyTypeObject*, Reader>& readers() {
  static auto* map = new std::unordered_map<PyTypeObject*, Reader>;
  return *map;
}

const DLPackExchangeAPI* find_table(const py::type& type) {
  constexpr const char* kCapsule = "dlpack_exchange_api";
  const py::object capsule = py::getattr(type, "__dlpack_c_exchange_api__", py::none());
  if (!PyCapsule_IsValid(capsule.ptr(), kCapsule)) return nullptr;
  const auto* table = static_cast<const DLPackExchangeAPI*>(PyCapsule_GetPointer(capsule.ptr(), kCapsule));
  while (table != nullptr && table->version.major > kMajorVersion) table = table->previous;
  return table != nullptr && table->version.major == kMajorVersion ? table : nullptr;
}

/// What is read of a tensor on a device, which has to be one whose streams are known.
std::optional<ReadTensor> on_device(const Reader& reader, TensorRef ref, int device) {
  if (reader.stream_of == nullptr) return std::nullopt;
  ref.device = DeviceKind::kCuda;
  return ReadTensor{std::move(ref), {device, py::reinterpret_borrow<py::object>(reader.stream_of)}};
}

std::optional<ReadTensor> read_with(const Reader& reader, py::handle tensor) {
  const DLPackExchangeAPI& table = *reader.table;
  DLTensor view{};
  if (table.view_tensor(tensor.ptr(), &view) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  const std::optional<DType> dtype = dtype_of(view.dtype);
  if (!dtype || !is_compact(view)) return std::nullopt;
  if (view.device.type != kHostDevice && view.device.type != kCudaDevice) return std::nullopt;
  Shape shape(view.shape, view.shape + view.ndim);
  if (may_be_negated(tensor, shape)) return std::nullopt;
  TensorRef ref{static_cast<std::byte*>(view.data) + view.byte_offset, std::move(shape), *dtype,
                DeviceKind::kHost};
  if (view.device.type == kCudaDevice) return on_device(reader, std::move(ref), view.device.id);
  return ReadTensor{std::move(ref), {}};
}

/// Names of attributes, made once.
struct Names {
  PyObject* dtype = PyUnicode_InternFromString("dtype");
  PyObject* is_cpu = PyUnicode_InternFromString("is_cpu");
  PyObject* is_cuda = PyUnicode_InternFromString("is_cuda");
  PyObject* device = PyUnicode_InternFromString("device");
  PyObject* index = PyUnicode_InternFromString("index");
  PyObject* is_contiguous = PyUnicode_InternFromString("is_contiguous");
  PyObject* shape = PyUnicode_InternFromString("shape");
  PyObject* data_ptr = PyUnicode_InternFromString("data_ptr");
};

/// Takes a result of Python's C interface; throws what it has raised.
py::object checked(PyObject* result) {
  if (result == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

std::optional<ReadTensor> read_attributes(const Reader& reader, py::handle tensor) {
  static const Names names;
  const auto attribute = [&](PyObject* name) { return checked(PyObject_GetAttr(tensor.ptr(), name)); };
  const auto call = [&](PyObject* name) { return checked(PyObject_CallMethodNoArgs(tensor.ptr(), name)); };
  try {
    PyObject* const code = PyDict_GetItem(reader.dtypes, attribute(names.dtype).ptr());
    if (code == nullptr || !call(names.is_contiguous).is(py::bool_(true))) return std::nullopt;
    const bool is_host = attribute(names.is_cpu).is(py::bool_(true));
    if (!is_host && !attribute(names.is_cuda).is(py::bool_(true))) return std::nullopt;
    Shape shape;
    for (const py::handle extent : py::reinterpret_steal<py::tuple>(attribute(names.shape).release()))
      shape.push_back(PyLong_AsLongLong(extent.ptr()));
    if (may_be_negated(tensor, shape)) return std::nullopt;
    TensorRef ref{static_cast<std::byte*>(PyLong_AsVoidPtr(call(names.data_ptr).ptr())), std::move(shape),
                  static_cast<DType>(PyLong_AsLong(code)), DeviceKind::kHost};
    if (is_host) return ReadTensor{std::move(ref), {}};
    const py::object device = attribute(names.device);
    return on_device(reader, std::move(ref),
                     PyLong_AsLong(checked(PyObject_GetAttr(device.ptr(), names.index)).ptr()));
  } catch (const py::error_already_set&) {
    return std::nullopt;  // sparse tensors have no memory of this kind
  }
}

std::optional<DType> dtype_of(const char* format, py::ssize_t bytes) {
  if (format == nullptr || format[0] == '\0' || format[1] != '\0') return std::nullopt;
  const auto of_bytes = [bytes](DType one, DType two, DType four, DType eight) {
    return bytes == 1 ? one : bytes == 2 ? two : bytes == 4 ? four : eight;
  };
  switch (format[0]) {
    case '?':
      return DType::kBool;
    case 'B':
      return DType::kUInt8;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
      return of_bytes(DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64);
    case 'e':
      return DType::kFloat16;
    case 'f':
      return DType::kFloat32;
    case 'd':
      return DType::kFloat64;
    default:
      return std::nullopt;
  }
}

std::optional<TensorRef> read_buffer(py::handle tensor) {
  Py_buffer view;
  if (PyObject_GetBuffer(tensor.ptr(), &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  std::optional<TensorRef> ref;
  if (const std::optional<DType> dtype = dtype_of(view.format, view.itemsize)) {
    ref = TensorRef{static_cast<std::byte*>(view.buf), Shape(view.shape, view.shape + view.ndim), *dtype,
                    DeviceKind::kHost};
  }
  PyBuffer_Release(&view);
  return ref;
}

}  // namespace

DevicePlace DeviceSource::place() const {
  return is_host() ? DevicePlace{} : DevicePlace{device, stream_of(device).cast<std::uintptr_t>()};
}

void register_tensor_type(const py::type& type, std::optional<py::dict> dtypes, bool use_table,
                          py::object stream_of) {
  Reader reader;
  if (dtypes) {
    reader.table = use_table ? find_table(type) : nullptr;
    reader.dtypes = dtypes->release().ptr();
    reader.stream_of = stream_of.is_none() ? nullptr : stream_of.release().ptr();
  }
  if (readers().emplace(reinterpret_cast<PyTypeObject*>(type.ptr()), reader).second) type.inc_ref();
}

std::optional<ReadTensor> read_tensor(py::handle tensor) {
  const auto found = readers().find(Py_TYPE(tensor.ptr()));
  if (found == readers().end()) return std::nullopt;
  const Reader& reader = found->second;
  if (reader.table != nullptr) return read_with(reader, tensor);
  if (reader.dtypes != nullptr) return read_attributes(reader, tensor);
  std::optional<TensorRef> ref = read_buffer(tensor);
  if (!ref) return std::nullopt;
  return ReadTensor{std::move(*ref), {}};
}

}  // namespace hora::python
