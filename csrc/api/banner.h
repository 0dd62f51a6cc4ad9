#pragma once

#include <string>
#include <string_view>

#include "core/topology.h"

namespace hora {

/// What has been started, in one line: "hora 0.3.0: 4 ranks on 2 hosts over mpi, ...". `launcher` is the
/// variable that told of the launcher.
[[nodiscard]] std::string banner(const Topology& topology, std::string_view transport,
                                 std::string_view launcher);

}  // namespace hora
