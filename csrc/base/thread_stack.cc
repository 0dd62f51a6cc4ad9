#include "base/thread_stack.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

namespace hora {
namespace {

constexpr auto kLook = std::chrono::milliseconds(2);
constexpr off_t kMostBytes = 4096;

off_t size_of(int file) {
  struct stat status{};
  return fstat(file, &status) == 0 ? status.st_size : 0;
}

}  // namespace

/// The stack is there when the file has stopped growing.
std::string ThreadStack::read(Duration at_most) const {
  const TimePoint until = Clock::now() + at_most;
  if (ftruncate(file, 0) != 0 || lseek(file, 0, SEEK_SET) != 0 || pthread_kill(thread, signal) != 0)
    return {};
  off_t before = 0;
  for (off_t now = 0; now == 0 || now != before; now = size_of(file)) {
    if (Clock::now() > until) return {};
    before = now;
    std::this_thread::sleep_for(kLook);
  }
  std::string text(static_cast<std::size_t>(std::min(before, kMostBytes)), '\0');
  const ssize_t length = pread(file, text.data(), text.size(), 0);
  text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return text;
}

}  // namespace hora
