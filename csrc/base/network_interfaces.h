#pragma once

#include <string>
#include <string_view>

namespace hora {

/// Says that this host has none of the network interfaces in a list such as `eth0,10.0.0.0/8`, and which it
/// has; empty when it has one. Ranges of addresses are taken as they are.
[[nodiscard]] std::string missing_interfaces(std::string_view list);

}  // namespace hora
