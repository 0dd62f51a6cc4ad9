#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>

namespace hora {

spdlog::logger& log() {
  // Never destroyed: threads of a session may still log while the process ends.
  static auto* logger = [] {
    auto* made = new spdlog::logger("hora", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_level(spdlog::level::warn);
    made->set_pattern("[hora] [%l] %v");
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *logger;
}

void configure_log(const std::string& level, int rank) {
  log().set_level(spdlog::level::from_str(level));
  log().set_pattern(fmt::format("[%H:%M:%S.%e] [hora rank {}] [%l] %v", rank));
}

}  // namespace hora
