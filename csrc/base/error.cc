#include "base/error.h"

#include <fmt/format.h>

namespace hora {

void raise_formatted(ErrorKind kind, fmt::string_view format, fmt::format_args args) {
  throw Error(kind, fmt::vformat(format, args));
}

}  // namespace hora
