#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"

namespace hora {

/// A connection between two processes of one user on one machine, over which descriptors can be handed. All
/// functions throw Error(kStartup) when the peer hangs up or the deadline passes.
class LocalSocket {
 public:
  /// Waits until the listener of this name, which already listens, accepts the connection.
  [[nodiscard]] static LocalSocket connect(const std::string& name, TimePoint deadline);

  void send(std::span<const std::byte> data, TimePoint deadline) const;
  void receive(std::span<std::byte> data, TimePoint deadline) const;

  /// The peer gets descriptors of its own for the same files.
  void send_descriptors(std::span<const int> descriptors, TimePoint deadline) const;
  [[nodiscard]] std::vector<Descriptor> receive_descriptors(std::size_t count, TimePoint deadline) const;

 private:
  friend class LocalListener;
  explicit LocalSocket(Descriptor socket) : socket_(std::move(socket)) {}
  void wait_for(short event, TimePoint deadline) const;

  Descriptor socket_;
};

/// Accepts connections under a name that nobody can guess. The name is not a file, so nothing stays behind.
class LocalListener {
 public:
  LocalListener();

  [[nodiscard]] const std::string& name() const { return name_; }
  /// The next connection of this user; those of other users are refused.
  [[nodiscard]] LocalSocket accept(TimePoint deadline) const;

 private:
  std::string name_;
  Descriptor socket_;
};

}  // namespace hora
