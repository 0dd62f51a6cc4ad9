#pragma once

#include <mpi.h>

#include <array>
#include <string>

#include "base/error.h"

namespace hora {

/// Turns an MPI error code into an exception.
inline void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  raise(ErrorKind::kSessionFailed, "{} failed: {}", what,
        std::string(text.data(), static_cast<std::size_t>(length)));
}

}  // namespace hora
