#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/tcp.h"
#include "transport/transport.h"
#include "transport/wake/links.h"

namespace hora {

struct LinkOptions {
  std::chrono::milliseconds deadline{3000};            ///< for one connection
  Duration start_timeout = std::chrono::seconds(120);  ///< for a peer to come to connect at all
  /// At which others are to try to reach this rank.
  std::function<std::vector<IpAddress>()> addresses = own_addresses;
};

/// What came of connecting.
struct LinkAttempt {
  std::vector<Links::Connection> made;
  std::vector<int> missing;  ///< peers to whom there is no connection
};

/// Connects this rank with its peers, each of which calls this as well and lists this rank. Both ends of a
/// pair learn alike whether they are connected. The lower rank of a pair listens; it tells the other where
/// over `transport`. Throws only when `transport` fails.
[[nodiscard]] LinkAttempt connect_links(Transport& transport, std::span<const int> peers,
                                        const LinkOptions& options);

}  // namespace hora
