#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "api/session.h"
#include "tensors.h"

namespace hora::python {

/// Python's view of a handle. Keeps the objects that own the tensors' memory until the operation is complete,
/// even when the handle itself is dropped before: what is then still running moves to a list of orphans. On a
/// device an operation is complete when the device is through with it, long after `wait`.
class PyHandle {
 public:
  PyHandle(std::shared_ptr<Session> session, HandlePtr handle, pybind11::object owners, DeviceSource source)
      : session_(std::move(session)),
        handle_(std::move(handle)),
        owners_(std::move(owners)),
        source_(std::move(source)) {}
  ~PyHandle();
  PyHandle(PyHandle&&) = default;

  /// Whether nothing of it runs any more.
  [[nodiscard]] bool is_complete() const;
  [[nodiscard]] bool poll();
  void wait();
  [[nodiscard]] Output output(std::size_t tensor) const;
  [[nodiscard]] std::int64_t value() const { return handle_->value(); }

 private:
  friend void release_finished_orphans();
  void free_name();

  std::shared_ptr<Session> session_;
  HandlePtr handle_;
  pybind11::object owners_;
  DeviceSource source_;
  bool is_name_free_ = false;
};

/// Lets go of the orphans that are complete. Called with the interpreter lock held.
void release_finished_orphans();

void bind_handle(pybind11::module_& module);

}  // namespace hora::python
