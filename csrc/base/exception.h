#pragma once

#include <exception>
#include <string>
#include <utility>

namespace hora {

/// Who can do something about an error; each kind is one exception class in Python and one status in C.
enum class ErrorKind {
  kInvalidArgument,  ///< the caller of this rank passed something wrong; nothing was started
  kMismatch,         ///< ranks disagree about one tensor; only that tensor fails, on every rank
  kNotInitialized,   ///< no session in this process
  kStartup,          ///< the session could not be made
  kSessionFailed,    ///< the session is over: a peer left or was lost, or an internal error
};

/// What this library throws. Keeps a text of its own, so that copies on different threads share nothing.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }
  [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorKind kind_;
  std::string message_;
};

}  // namespace hora
