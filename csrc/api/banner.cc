#include "api/banner.h"

#include <fmt/format.h>

#include "base/version.h"

namespace hora {
namespace {

std::string counted(int number, std::string_view thing) {
  return fmt::format("{} {}{}", number, thing, number == 1 ? "" : "s");
}

}  // namespace

std::string banner(const Topology& topology, std::string_view transport, std::string_view launcher) {
  std::string text =
      fmt::format("hora {}: {} on {} over {}; backends: host, nccl", version(),
                  counted(topology.size(), "rank"), counted(topology.host_count(), "host"), transport);
  if (!launcher.empty()) text += fmt::format("; launcher: {}", launcher);
  return text;
}

}  // namespace hora
