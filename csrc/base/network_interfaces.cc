#include "base/network_interfaces.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/text.h"

namespace hora {
namespace {

using Interfaces = std::unique_ptr<ifaddrs, decltype(&freeifaddrs)>;

std::vector<std::string_view> parts_of(std::string_view list) {
  std::vector<std::string_view> parts;
  for (std::size_t start = 0; start <= list.size();) {
    const std::size_t end = std::min(list.find(',', start), list.size());
    if (end > start) parts.push_back(list.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

/// "eth0 (10.0.0.2)"; empty for an entry that is no address of the internet.
std::string describe(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr) return {};
  const int family = entry.ifa_addr->sa_family;
  if (family != AF_INET && family != AF_INET6) return {};
  const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::array<char, NI_MAXHOST> address{};
  if (getnameinfo(entry.ifa_addr, length, address.data(), address.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return {};
  return fmt::format("{} ({})", entry.ifa_name, address.data());
}

Interfaces interfaces_here() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) first = nullptr;
  return {first, &freeifaddrs};
}

}  // namespace

std::string missing_interfaces(std::string_view list) {
  const auto is_here = [](std::string_view name) {
    return name.find('/') != std::string_view::npos || if_nametoindex(std::string(name).c_str()) != 0;
  };
  const std::vector<std::string_view> names = parts_of(list);
  if (names.empty() || std::ranges::any_of(names, is_here)) return {};
  const Interfaces first = interfaces_here();
  std::vector<std::string> here;
  for (const ifaddrs* entry = first.get(); entry != nullptr; entry = entry->ifa_next) {
    if (std::string text = describe(*entry); !text.empty()) here.push_back(std::move(text));
  }
  return fmt::format("this host has no network interface {}; it has {}", join(names, ", "), join(here, ", "));
}

}  // namespace hora
