#include "base/process_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/open_files.h"

namespace hora {
namespace {

Watchable watchable_pipe(std::string lack) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) raise(ErrorKind::kStartup, "pipe2: {}", describe_error(errno));
  return {Descriptor(ends[0]), Descriptor(ends[1]), std::move(lack)};
}

}  // namespace

Watchable watchable_self() {
  Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (process) return {std::move(process), {}, {}};
  return watchable_pipe(fmt::format("pidfd_open: {}", std::strerror(errno)));
}

ProcessWatch::ProcessWatch() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) raise(ErrorKind::kStartup, "epoll_create1: {}", describe_error(errno));
}

void ProcessWatch::add(int number, Descriptor process) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = number;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, process.get(), &event) != 0)
    raise(ErrorKind::kStartup, "epoll_ctl: {}", describe_error(errno));
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
