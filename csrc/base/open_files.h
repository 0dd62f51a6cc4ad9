#pragma once

#include <cstddef>
#include <string>

namespace hora {

/// Why this process cannot open so many more files, with the numbers; empty when it can.
[[nodiscard]] std::string shortage_of_files(std::size_t needed);

/// The system's word for an error; with numbers where there are too many open files.
[[nodiscard]] std::string describe_error(int number);

}  // namespace hora
