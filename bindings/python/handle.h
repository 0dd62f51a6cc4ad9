#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "api/session.h"

namespace hora::python {

/// Python's view of a handle. Keeps the objects that own the tensors' memory until the operation is complete,
/// even when the handle itself is dropped before: what is then still running moves to a list of orphans.
class PyHandle {
 public:
  PyHandle(std::shared_ptr<Session> session, HandlePtr handle, pybind11::object owners)
      : session_(std::move(session)), handle_(std::move(handle)), owners_(std::move(owners)) {}
  ~PyHandle();
  PyHandle(PyHandle&&) = default;

  [[nodiscard]] bool poll();
  void wait();
  [[nodiscard]] Output output(std::size_t tensor) const;
  [[nodiscard]] std::int64_t value() const { return handle_->value(); }

 private:
  void finish();

  std::shared_ptr<Session> session_;
  HandlePtr handle_;
  pybind11::object owners_;
};

/// Lets go of the orphans that are complete. Called with the interpreter lock held.
void release_finished_orphans();

void bind_handle(pybind11::module_& module);

}  // namespace hora::python
