#include "base/tcp.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "support/tcp_pair.h"

namespace hora::testing {
namespace {

TEST(Tcp, knows_addresses_of_this_machine_loopback_last) {
  const std::vector<IpAddress> addresses = own_addresses();
  ASSERT_FALSE(addresses.empty());
  const IpAddress& last = addresses.back();
  EXPECT_TRUE(last.family == IpAddress::Family::kV6 ? last.bytes[15] == std::byte{1}
                                                    : last.bytes[0] == std::byte{127});
}

TEST(Tcp, carries_bytes_between_both_ends) {
  const TcpPair pair = make_tcp_pair();
  const std::array<std::byte, 3> sent{std::byte{1}, std::byte{2}, std::byte{3}};
  std::array<std::byte, 8> got{};
  EXPECT_EQ(pair.one.receive(got), 0u);
  ASSERT_TRUE(pair.other.send(sent));
  await_event_on(pair.one, POLLIN);
  EXPECT_EQ(pair.one.receive(got), 3u);
  EXPECT_EQ(got[2], std::byte{3});
}

TEST(Tcp, says_when_the_other_end_is_gone) {
  TcpPair pair = make_tcp_pair();
  {
    const TcpSocket gone = std::move(pair.other);
  }
  await_event_on(pair.one, POLLIN);
  std::array<std::byte, 8> got{};
  EXPECT_EQ(pair.one.receive(got), std::nullopt);
}

TEST(Tcp, says_when_nobody_listens) {
  const std::uint16_t port = TcpListener().port();
  const auto socket = TcpSocket::connect(kLoopback, port);
  if (!socket) return;
  await_event_on(*socket, POLLOUT);
  EXPECT_FALSE(socket->connected());
}

}  // namespace
}  // namespace hora::testing
