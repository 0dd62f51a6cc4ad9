#include "base/event.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

#include "base/error.h"
#include "base/open_files.h"

namespace hora {

Descriptor make_event() {
  Descriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) raise(ErrorKind::kStartup, "eventfd: {}", describe_error(errno));
  return event;
}

void ring_event(int event) {
  // Fails only when the bell has been rung 2^64 times and not been heard.
  static_cast<void>(eventfd_write(event, 1));
}

void await_event(int event, Duration at_most, int further) {
  const timespec timeout = to_timespec(at_most);
  std::array<pollfd, 2> polled{{{event, POLLIN, 0}, {further, POLLIN, 0}}};
  if (ppoll(polled.data(), polled.size(), &timeout, nullptr) > 0 && polled.front().revents != 0)
    hush_event(event);
}

void hush_event(int event) {
  eventfd_t rings = 0;
  static_cast<void>(eventfd_read(event, &rings));
}

timespec to_timespec(Duration duration) {
  const auto count = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  const auto nanoseconds = std::max<std::int64_t>(count, 0);
  return {nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
}

}  // namespace hora
