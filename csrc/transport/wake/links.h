#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/tcp.h"

namespace hora {

/// The connections over which other ranks wake this one when it sleeps, and it wakes them. Messages go
/// another way, which cannot wake anybody; here both ends only count them.
///
/// Who is about to sleep tells every peer how many messages it has received from it. A peer that has posted
/// more, or posts one later, says how many it has posted, once. That ends the sleep. So nothing is sent while
/// nobody sleeps, and neither end ever has to wait before it can send: few words are under way at a time.
///
/// The word may be there before the message that it is about. Then the receiver does not sleep until it has
/// received as many messages as it was told of.
///
/// Lock map: is_whole_ is an atomic; polled_ belongs to the one thread that sleeps; all else -> mutex_.
class Links {
 public:
  struct Connection {
    int peer;
    TcpSocket socket;
  };
  /// `is_whole`: they lead to all ranks that send messages to this one.
  Links(std::vector<Connection> connections, bool is_whole);

  /// Whether a message from any peer ends a sleep: no connection is missing, and none has ended.
  [[nodiscard]] bool are_whole() const { return is_whole_; }

  void count_posted(int peer);
  void count_received(int peer);
  /// Looks whether peers have gone to sleep meanwhile, and wakes those that should not have.
  void look();
  /// Sleeps until the bell rings, a message is on its way, there is something to read from a further
  /// descriptor, or the time is over.
  void sleep(int bell, Duration at_most, int further = -1);
  /// A peer whose connection has ended, each once.
  [[nodiscard]] std::optional<int> take_ended();
  /// In a forked child: closes what belongs to the parent.
  void close_in_child();

 private:
  static constexpr int kNobodySleeps = -1;
  enum class Word : std::uint64_t { kAsleep, kWake };
  struct Link {
    int peer;
    TcpSocket socket;
    std::uint64_t posted = 0;
    std::uint64_t received = 0;
    std::uint64_t announced = 0;  ///< messages that the peer says it has posted
    std::uint64_t peer_has = 0;   ///< messages that it had when it went to sleep
    bool peer_sleeps = false;     ///< and has not been woken
    bool has_told = false;        ///< it knows that this rank sleeps
    bool has_ended = false;
    bool is_taken = false;                                 ///< its end has been told
    std::array<std::byte, sizeof(std::uint64_t)> heard{};  ///< a word that may not be complete
    std::size_t length = 0;
  };
  [[nodiscard]] Link* find(int peer);
  void tell(Link& link, Word word, std::uint64_t count);
  void hear(Link& link);
  void take(Link& link, std::uint64_t coded);
  void wake_if_late(Link& link);
  void end(Link& link);
  void end_sleep();
  [[nodiscard]] bool may_sleep(int bell);
  [[nodiscard]] bool wait(int bell, TimePoint until, int further);

  std::mutex mutex_;
  std::vector<Link> links_;
  std::atomic<bool> is_whole_;
  int sleepers_bell_ = kNobodySleeps;  // another thread may hear what a sleeper waits for
  std::vector<pollfd> polled_;
};

}  // namespace hora
