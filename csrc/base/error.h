#pragma once

#include <fmt/core.h>

#include "base/exception.h"

namespace hora {

[[noreturn]] void raise_formatted(ErrorKind kind, fmt::string_view format, fmt::format_args args);

/// Throws an Error with a formatted text. Headers that are installed include base/exception.h alone, so that
/// their users need no fmt.
template <typename... Args>
[[noreturn]] void raise(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  raise_formatted(kind, format, fmt::make_format_args(args...));
}

}  // namespace hora
