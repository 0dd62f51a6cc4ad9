#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"

namespace hora {

/// What other processes can watch to learn when this one ends, even as a zombie.
struct Watchable {
  Descriptor process;  ///< for the others
  /// Open in this process alone, for as long as it is watched. Only where the system has no descriptors of
  /// processes: then `process` is the other end of a pipe, and copies of this one hide the end.
  Descriptor kept;
  std::string lack;  ///< why it is a pipe
};

/// Throws Error(kStartup) when no descriptors are left.
[[nodiscard]] Watchable watchable_self();

/// Notices when processes end.
class ProcessWatch {
 public:
  ProcessWatch();

  /// `process` is what that process got from `watchable_self`.
  void add(int number, Descriptor process);
  /// Readable as long as `take_ended` has something.
  [[nodiscard]] int descriptor() const { return epoll_.get(); }
  /// The number of one that has ended, each once.
  [[nodiscard]] std::optional<int> take_ended();
  /// For a forked child.
  void close();

 private:
  struct Watched {
    int number;
    Descriptor process;
  };
  Descriptor epoll_;
  std::vector<Watched> watched_;
};

}  // namespace hora
