#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace hora {

/// Who can do something about an error; each kind is one exception class in Python.
enum class ErrorKind {
  kInvalidArgument,  ///< the caller of this rank passed something wrong; nothing was started
  kMismatch,         ///< ranks disagree about one tensor; only that tensor fails, on every rank
  kNotInitialized,   ///< no session in this process
  kStartup,          ///< the session could not be made
  kSessionFailed,    ///< the session is over: a peer left or was lost, or an internal error
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

[[noreturn]] void raise_formatted(ErrorKind kind, fmt::string_view format, fmt::format_args args);

template <typename... Args>
[[noreturn]] void raise(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  raise_formatted(kind, format, fmt::make_format_args(args...));
}

}  // namespace hora
