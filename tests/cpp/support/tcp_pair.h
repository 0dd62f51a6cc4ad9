#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <optional>
#include <utility>

#include "base/tcp.h"
#include "support/inbox.h"

namespace hora::testing {

inline const IpAddress kLoopback{.bytes = {std::byte{127}, {}, {}, std::byte{1}}};

/// Until there is something to do on a connection.
inline void await_event_on(const TcpSocket& socket, short event) {
  pollfd polled{socket.descriptor(), event, 0};
  EXPECT_EQ(poll(&polled, 1, 20'000), 1);
}

/// Both ends of one connection.
struct TcpPair {
  TcpSocket one;
  TcpSocket other;
};

inline TcpPair make_tcp_pair() {
  const TcpListener listener;
  std::optional<TcpSocket> one = TcpSocket::connect(kLoopback, listener.port());
  std::optional<TcpSocket> other;
  wait_for([&] { return (other = listener.accept()).has_value(); });
  EXPECT_TRUE(one && one->connected());
  return {std::move(*one), std::move(*other)};
}

}  // namespace hora::testing
