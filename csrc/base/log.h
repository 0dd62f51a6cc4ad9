#pragma once

#include <string>
#include <string_view>

namespace hora {

// The library's log, on stderr. Before `configure_log` it shows warnings and errors.

void log_info(std::string_view text);
void log_warning(std::string_view text);
void log_error(std::string_view text);

/// Sets the level (`trace`, `debug`, `info`, `warning`, `error`, `off`) and the rank shown on each line, of
/// so many.
void configure_log(const std::string& level, int rank, int size);

/// A line that no level hides.
void print_line(std::string_view text, int rank, int size);

}  // namespace hora
