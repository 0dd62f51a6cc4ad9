#include "transport/wake/dial.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace hora {
namespace {

// An address that has not answered by then may be a wrong one, so the next is tried beside it.
constexpr auto kHeadStart = std::chrono::milliseconds(200);

/// What has come of one address.
enum class Outcome : std::uint8_t { kOpen, kRefused, kAnswered };

struct Attempt {
  TcpSocket socket;
  bool is_greeted = false;
  Secret heard{};
  std::size_t length = 0;
};

/// Tries one address after the other, each when those before it have failed or had their head start.
class Dialing {
 public:
  Dialing(const Invitation& invitation, int rank)
      : invitation_(invitation),
        greeting_(std::bit_cast<decltype(greeting_)>(Greeting{invitation.secret, rank})) {}

  [[nodiscard]] std::optional<TcpSocket> run(TimePoint deadline) {
    while (Clock::now() < deadline) {
      if (has_more() && (attempts_.empty() || Clock::now() >= next_try_)) {
        begin_attempt();
      } else if (attempts_.empty()) {
        break;
      } else if (auto socket = await_outcome(has_more() ? std::min(next_try_, deadline) : deadline)) {
        return socket;
      }
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] bool has_more() const { return tried_ < invitation_.address_count; }

  void begin_attempt() {
    next_try_ = Clock::now() + kHeadStart;
    if (auto socket = TcpSocket::connect(invitation_.addresses[tried_++], invitation_.port))
      attempts_.push_back({std::move(*socket)});
  }

  [[nodiscard]] std::optional<TcpSocket> await_outcome(TimePoint until) {
    std::vector<pollfd> polled;
    for (const Attempt& attempt : attempts_) {
      const auto event = static_cast<short>(attempt.is_greeted ? POLLIN : POLLOUT);
      polled.push_back({attempt.socket.descriptor(), event, 0});
    }
    if (!poll_until(polled, until)) return std::nullopt;
    for (std::size_t at = attempts_.size(); at-- > 0;) {
      if (polled[at].revents == 0) continue;
      const Outcome outcome = go_on(attempts_[at]);
      if (outcome == Outcome::kAnswered) return std::move(attempts_[at].socket);
      if (outcome == Outcome::kRefused) attempts_.erase(attempts_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return std::nullopt;
  }

  [[nodiscard]] Outcome go_on(Attempt& attempt) const {
    if (!attempt.is_greeted) {
      attempt.is_greeted = attempt.socket.connected() && attempt.socket.send(greeting_);
      return attempt.is_greeted ? Outcome::kOpen : Outcome::kRefused;
    }
    const auto count = attempt.socket.receive(std::span(attempt.heard).subspan(attempt.length));
    if (!count) return Outcome::kRefused;
    attempt.length += *count;
    if (attempt.length < attempt.heard.size()) return Outcome::kOpen;
    return is_same(attempt.heard, invitation_.answer) ? Outcome::kAnswered : Outcome::kRefused;
  }

  const Invitation& invitation_;
  const std::array<std::byte, sizeof(Greeting)> greeting_;
  std::size_t tried_ = 0;
  TimePoint next_try_;
  std::vector<Attempt> attempts_;
};

}  // namespace

std::optional<TcpSocket> dial(const Invitation& invitation, int rank, TimePoint deadline) {
  return Dialing(invitation, rank).run(deadline);
}

}  // namespace hora
