#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace hora {
namespace {

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

}  // namespace

void log_info(std::string_view text) {
  log().info(text);
}
void log_warning(std::string_view text) {
  log().warn(text);
}
void log_error(std::string_view text) {
  log().error(text);
}

void configure_log(const std::string& level, int rank, int size) {
  log().set_level(spdlog::level::from_str(level));
  log().set_pattern(fmt::format("[hora rank {}/{}] [%H:%M:%S.%e] [%l] %v", rank, size));
}

void print_line(std::string_view text, int rank, int size) {
  fmt::print(stderr, "[hora rank {}/{}] {}\n", rank, size, text);
}

}  // namespace hora
