#include "transport/wake/links.h"

#include <algorithm>
#include <bit>
#include <span>
#include <thread>
#include <utility>

#include "base/event.h"
#include "transport/wake/greeting.h"

namespace hora {
namespace {

// Messages may come that nothing tells of.
constexpr Duration kUnwholeSleep = std::chrono::milliseconds(2);

}  // namespace

Links::Links(std::vector<Connection> connections, bool is_whole) : is_whole_(is_whole) {
  for (Connection& connection : connections)
    links_.push_back({.peer = connection.peer, .socket = std::move(connection.socket)});
}

Links::Link* Links::find(int peer) {
  const auto found = std::ranges::find(links_, peer, &Link::peer);
  return found == links_.end() ? nullptr : &*found;
}

void Links::count_posted(int peer) {
  const std::lock_guard lock(mutex_);
  Link* const link = find(peer);
  if (link == nullptr) return;
  ++link->posted;
  hear(*link);
  wake_if_late(*link);
}

void Links::count_received(int peer) {
  const std::lock_guard lock(mutex_);
  if (Link* const link = find(peer)) ++link->received;
}

void Links::look() {
  const std::lock_guard lock(mutex_);
  for (Link& link : links_) {
    hear(link);
    wake_if_late(link);
  }
}

void Links::sleep(int bell, Duration at_most, int further) {
  const TimePoint until = Clock::now() + at_most;
  do {
    if (!may_sleep(bell)) return std::this_thread::yield();
    if (!is_whole_) return await_event(bell, std::min(at_most, kUnwholeSleep), further);
  } while (!wait(bell, until, further));
}

/// Tells everybody, unless a message is on its way.
bool Links::may_sleep(int bell) {
  const std::lock_guard lock(mutex_);
  const auto is_owed = [](const Link& link) { return link.announced > link.received; };
  if (std::ranges::any_of(links_, is_owed)) return false;
  for (Link& link : links_) {
    if (!std::exchange(link.has_told, true)) tell(link, Word::kAsleep, link.received);
  }
  if (is_whole_) sleepers_bell_ = bell;
  return true;
}

/// Says whether the sleep is over, as far as can be seen here.
bool Links::wait(int bell, TimePoint until, int further) {
  polled_.assign({{bell, POLLIN, 0}, {further, POLLIN, 0}});
  {
    const std::lock_guard lock(mutex_);
    for (const Link& link : links_) {
      if (!link.has_ended) polled_.push_back({link.socket.descriptor(), POLLIN, 0});
    }
  }
  const bool is_late = !poll_until(polled_, until);
  {
    const std::lock_guard lock(mutex_);
    sleepers_bell_ = kNobodySleeps;
  }
  if (is_late) return true;
  const bool has_rung = polled_.front().revents != 0;
  const bool is_over = has_rung || polled_[1].revents != 0;
  if (has_rung) hush_event(bell);
  look();
  return is_over || !is_whole_;
}

std::optional<int> Links::take_ended() {
  look();
  const std::lock_guard lock(mutex_);
  const auto ended =
      std::ranges::find_if(links_, [](const Link& link) { return link.has_ended && !link.is_taken; });
  if (ended == links_.end()) return std::nullopt;
  ended->is_taken = true;
  return ended->peer;
}

/// Without the lock, which a thread may have held that is not here.
void Links::close_in_child() {
  links_.clear();
}

void Links::end_sleep() {
  if (sleepers_bell_ != kNobodySleeps) ring_event(sleepers_bell_);
}

void Links::tell(Link& link, Word word, std::uint64_t count) {
  if (link.has_ended) return;
  const std::uint64_t coded = count << 1 | static_cast<std::uint64_t>(word);
  if (!link.socket.send(std::as_bytes(std::span(&coded, 1)))) end(link);
}

void Links::hear(Link& link) {
  while (!link.has_ended) {
    const auto count = link.socket.receive(std::span(link.heard).subspan(link.length));
    if (!count) return end(link);
    if (*count == 0) return;
    link.length += *count;
    if (link.length < link.heard.size()) continue;
    link.length = 0;
    take(link, std::bit_cast<std::uint64_t>(link.heard));
  }
}

void Links::take(Link& link, std::uint64_t coded) {
  const std::uint64_t count = coded >> 1;
  if (static_cast<Word>(coded & 1) == Word::kAsleep) {
    link.peer_sleeps = true;
    link.peer_has = count;
  } else {
    link.has_told = false;
    link.announced = std::max(link.announced, count);
    end_sleep();
  }
}

void Links::wake_if_late(Link& link) {
  if (!link.peer_sleeps || link.posted <= link.peer_has) return;
  link.peer_sleeps = false;
  tell(link, Word::kWake, link.posted);
}

/// The peer has left or is lost.
void Links::end(Link& link) {
  link.has_ended = true;
  is_whole_ = false;
  end_sleep();
}

}  // namespace hora
