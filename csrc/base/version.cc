#include "base/version.h"

namespace hora {

std::string_view version() {
  return HORA_VERSION;
}

}  // namespace hora
