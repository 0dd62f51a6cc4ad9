#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/tcp.h"
#include "transport/wake/greeting.h"

namespace hora {

/// Where other ranks connect to this one. Strangers may come as well; they are turned away.
class Door {
 public:
  /// Throws Error(kStartup) when it cannot listen.
  Door() = default;

  /// What a peer has to know to be let in.
  [[nodiscard]] Invitation invite(int peer, std::span<const IpAddress> addresses);
  /// Lets in who comes within the time.
  void serve(Duration at_most);
  /// The connection of a peer that has come.
  [[nodiscard]] std::optional<TcpSocket> take(int peer);

 private:
  /// Somebody who has not yet said who he is.
  struct Visitor {
    TcpSocket socket;
    std::array<std::byte, sizeof(Greeting)> said{};
    std::size_t length = 0;
  };
  struct Expected {
    Secret secret;
    Secret answer;
    std::optional<TcpSocket> socket;
  };
  [[nodiscard]] bool is_done_with(Visitor& visitor);
  void let_in(Visitor& visitor);

  TcpListener listener_;
  std::vector<Visitor> visitors_;
  std::map<int, Expected> expected_;  // by rank
};

}  // namespace hora
