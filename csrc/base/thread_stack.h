#pragma once

#include <pthread.h>

#include <string>

#include "base/clock.h"

namespace hora {

/// A thread that writes its stack to a file when it gets a signal, so that another can read where it is,
/// whatever locks it holds. Who installs the handler and makes the file is not told here: it is an
/// interpreter's.
struct ThreadStack {
  pthread_t thread;
  int signal;
  int file;  ///< the handler writes to where the file's position is

  /// Empty when the thread does not answer in time: it is stopped, or waits within the system.
  [[nodiscard]] std::string read(Duration at_most) const;
};

}  // namespace hora
