#include "base/open_files.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>

namespace hora {
namespace {

struct OpenFiles {
  std::size_t open = 0;
  std::size_t most = 0;

  [[nodiscard]] std::string text() const {
    return fmt::format("{} of {} file descriptors are in use (ulimit -n)", open, most);
  }
};

/// All zero where that cannot be known.
OpenFiles count_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  const auto most = static_cast<std::size_t>(limit.rlim_cur);
  if (error == std::errc::too_many_files_open) return {most, most};
  if (error) return {};
  const auto counted = static_cast<std::size_t>(std::distance(begin(files), end(files)));
  return {counted - 1, most};  // without the one by which they are counted
}

}  // namespace

std::string shortage_of_files(std::size_t needed) {
  const OpenFiles files = count_open_files();
  if (files.most == 0 || files.open + needed <= files.most) return {};
  return fmt::format("{} file descriptors are needed, and {}", needed, files.text());
}

std::string describe_error(int number) {
  const std::string word = std::strerror(number);
  return number == EMFILE ? fmt::format("{}: {}", word, count_open_files().text()) : word;
}

}  // namespace hora
