#include "base/process_watch.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/event.h"

namespace hora {

Descriptor watchable_self() {
  Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  return process ? std::move(process) : make_event();
}

ProcessWatch::ProcessWatch() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) raise(ErrorKind::kStartup, "epoll_create1: {}", std::strerror(errno));
}

void ProcessWatch::add(int number, Descriptor process) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = number;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, process.get(), &event) != 0)
    raise(ErrorKind::kStartup, "epoll_ctl: {}", std::strerror(errno));
  watched_.push_back({number, std::move(process)});
}

std::optional<int> ProcessWatch::take_ended() {
  epoll_event event{};
  if (epoll_wait(epoll_.get(), &event, 1, 0) != 1) return std::nullopt;
  const int number = event.data.fd;
  const auto ended = std::ranges::find(watched_, number, &Watched::number);
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, ended->process.get(), nullptr);
  watched_.erase(ended);
  return number;
}

void ProcessWatch::close() {
  epoll_ = Descriptor();
  watched_.clear();
}

}  // namespace hora
