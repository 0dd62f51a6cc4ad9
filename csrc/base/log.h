#pragma once

#include <spdlog/spdlog.h>

#include <string>

namespace hora {

/// The library's logger; writes to stderr. Before `configure_log` it reports warnings and worse.
spdlog::logger& log();

/// Sets the level (`trace`, `debug`, `info`, `warning`, `error`, `off`) and the rank shown on each line.
void configure_log(const std::string& level, int rank);

}  // namespace hora
