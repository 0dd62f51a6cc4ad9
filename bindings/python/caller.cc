#include "caller.h"

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace py = pybind11;

namespace hora::python {
namespace {

/// What is known of one function's bytecode.
struct Code {
  py::object kept;        ///< so that its address always means the same
  bool is_passed = true;  ///< hora's own, or a framework's that calls hora or is called by it
  std::unordered_map<int, Caller> callers;  ///< by the place in the bytecode
};
using Codes = std::unordered_map<PyObject*, Code>;

// Programs that make code anew again and again fill the table; then it begins anew.
constexpr std::size_t kMostCodes = 4096;

/// A cache, on which no result depends. Guarded by the interpreter lock. Never destroyed, because the
/// interpreter is gone when static objects are.
Codes& codes() {
  static auto* const map = new Codes;
  return *map;
}

std::string text_of(PyObject* text) {
  Py_ssize_t length = 0;
  const char* const bytes = PyUnicode_AsUTF8AndSize(text, &length);
  if (bytes != nullptr) return {bytes, static_cast<std::size_t>(length)};
  PyErr_Clear();
  return "?";
}

std::string file_of(PyObject* code) {
  return text_of(reinterpret_cast<PyCodeObject*>(code)->co_filename);
}

std::string find_own_folder() {
  const auto file = py::module_::import("hora").attr("__file__").cast<std::string>();
  return (std::filesystem::path(file).parent_path() / "").string();
}

/// With a separator at its end. Guarded by the interpreter lock, which an import may give away meanwhile: one
/// who waits for another's first call would hold it.
const std::string& own_folder() {
  static const std::string* folder = nullptr;
  if (folder == nullptr) folder = new std::string(find_own_folder());
  return *folder;
}

bool is_passed(std::string_view file) {
  if (file.starts_with(own_folder())) return true;
  for (const std::string_view framework :
       {"-packages/torch/", "-packages/tensorflow/", "-packages/keras/", "-packages/tf_keras/"})
    if (file.find(framework) != std::string_view::npos) return true;
  return false;
}

/// Below the working folder without that.
std::string shown(const std::string& file) {
  std::error_code error;
  const std::string folder = (std::filesystem::current_path(error) / "").string();
  return !error && folder.size() > 1 && file.starts_with(folder) ? file.substr(folder.size()) : file;
}

/// The end of a function may run code of the program, which may make a call: the table is empty by then.
void begin_anew() {
  Codes ended;
  ended.swap(codes());
}

std::string show_place(const std::string& file, int line) {
  return fmt::format("{}:{}", shown(file), line);
}

Code& code_of(PyFrameObject* frame) {
  const auto code = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  const auto found = codes().find(code.ptr());
  if (found != codes().end()) return found->second;
  if (codes().size() >= kMostCodes) begin_anew();
  return codes().emplace(code.ptr(), Code{code, is_passed(file_of(code.ptr())), {}}).first->second;
}

int place_in(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return PyFrame_GetLasti(frame);
#else
  return frame->f_lasti;
#endif
}

Caller make_caller(PyFrameObject* frame, const Code& code) {
  return std::make_shared<const std::string>(
      show_place(file_of(code.kept.ptr()), PyFrame_GetLineNumber(frame)));
}

}  // namespace

std::optional<std::string> describe_place(const std::string& file, int line) {
  if (is_passed(file)) return std::nullopt;
  return show_place(file, line);
}

Caller find_caller() {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  Caller caller;
  while (frame != nullptr) {
    if (Code& code = code_of(frame); !code.is_passed) {
      Caller& known = code.callers[place_in(frame)];
      if (known == nullptr) known = make_caller(frame, code);
      caller = known;
      Py_DECREF(frame);
      break;
    }
    PyFrameObject* const outer = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = outer;
  }
  return caller;
}

}  // namespace hora::python
