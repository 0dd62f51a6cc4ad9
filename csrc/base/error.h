#pragma once

#include <fmt/core.h>

#include <exception>
#include <string>
#include <utility>

namespace hora {

/// Who can do something about an error; each kind is one exception class in Python.
enum class ErrorKind {
  kInvalidArgument,  ///< the caller of this rank passed something wrong; nothing was started
  kMismatch,         ///< ranks disagree about one tensor; only that tensor fails, on every rank
  kNotInitialized,   ///< no session in this process
  kStartup,          ///< the session could not be made
  kSessionFailed,    ///< the session is over: a peer left or was lost, or an internal error
};

/// Keeps a text of its own, so that copies on different threads share nothing.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }
  [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorKind kind_;
  std::string message_;
};

[[noreturn]] void raise_formatted(ErrorKind kind, fmt::string_view format, fmt::format_args args);

template <typename... Args>
[[noreturn]] void raise(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  raise_formatted(kind, format, fmt::make_format_args(args...));
}

}  // namespace hora
