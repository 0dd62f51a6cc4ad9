#pragma once

#include <optional>
#include <vector>

#include "base/descriptor.h"

namespace hora {

/// Something that another process can watch to learn when this one ends, even as a zombie, and whatever its
/// forked children keep open. Where the system has none it never tells anything.
[[nodiscard]] Descriptor watchable_self();

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
