// Environment variables: lines NAME=VALUE.

#include <string>
#include <unordered_map>

#include "base/config.h"
#include "base/horovod_variables.h"
#include "fuzz.h"

namespace hora::fuzz {

void take(std::span<const std::byte> input) {
  std::unordered_map<std::string, std::string> variables;
  std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos) variables.emplace(line.substr(0, equals), line.substr(equals + 1));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  const Environment environment = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  static_cast<void>(find_horovod_variables(environment).text());
  const Settings settings = read_settings(environment);
  require(settings.piece_bytes > 0 && settings.route.across_bytes > 0);
  require(settings.faults.empty() || parse_faults(to_string(settings.faults)) == settings.faults);
}

}  // namespace hora::fuzz
