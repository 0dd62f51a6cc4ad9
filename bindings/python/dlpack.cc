#include "dlpack.h"

#include <memory>

namespace py = pybind11;

namespace hora::python {
namespace {

constexpr const char* kCapsule = "dltensor";  // renamed by whoever takes the tensor out

/// A tensor together with what it points to.
struct Export {
  DLManagedTensor managed{};
  Output output;
};

DLDataType to_dlpack(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(dtype));
  switch (dtype) {
    case DType::kBool:
      return {6, bits, 1};
    case DType::kUInt8:
      return {1, bits, 1};
    case DType::kBFloat16:
      return {4, bits, 1};
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return {2, bits, 1};
    default:
      return {0, bits, 1};
  }
}

void destroy(DLManagedTensor* managed) {
  delete static_cast<Export*>(managed->owner);
}

void drop_unused(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, kCapsule)) return;
  auto* const managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kCapsule));
  managed->deleter(managed);
}

}  // namespace

py::capsule to_dlpack(const Output& output) {
  auto exported = std::make_unique<Export>(Export{{}, output});
  const auto [type, device] = dlpack_device(output);
  Output& own = exported->output;
  exported->managed = {{own.data.get(),
                        {type, device},
                        static_cast<std::int32_t>(own.shape.size()),
                        to_dlpack(own.dtype),
                        own.shape.data(),
                        nullptr,
                        0},
                       exported.get(),
                       &destroy};
  PyObject* const capsule = PyCapsule_New(&exported->managed, kCapsule, &drop_unused);
  if (capsule == nullptr) throw py::error_already_set();
  static_cast<void>(exported.release());
  return py::reinterpret_steal<py::capsule>(capsule);
}

std::pair<int, int> dlpack_device(const Output& output) {
  return output.device < 0 ? std::pair(kHostDevice, 0) : std::pair(kCudaDevice, output.device);
}

}  // namespace hora::python
