#include "transport/wake/connect.h"

#include <algorithm>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "transport/wake/dial.h"
#include "transport/wake/door.h"

namespace hora {
namespace {

// What else uses this tag is over by then, or has not begun.
constexpr int kInvitationTag = Transport::kStartTag;
// While others connect, messages of theirs are looked for so often.
constexpr auto kServePause = std::chrono::milliseconds(1);

/// One end's word whether it has the connection.
enum class Verdict : std::uint8_t { kGood, kBad };

template <typename T>
Ticket send_value(Transport& transport, int peer, const T& value) {
  return transport.send(peer, kInvitationTag, std::as_bytes(std::span(&value, 1)));
}

template <typename T>
Ticket receive_value(Transport& transport, int peer, T& value) {
  return transport.recv(peer, kInvitationTag, std::as_writable_bytes(std::span(&value, 1)));
}

class Connecting {
 public:
  Connecting(Transport& transport, const LinkOptions& options)
      : transport_(transport), options_(options), rank_(transport.topology().rank()) {}

  [[nodiscard]] LinkAttempt run(std::span<const int> peers) {
    std::vector<int> lower;
    std::vector<int> higher;
    for (const int peer : peers) (peer < rank_ ? lower : higher).push_back(peer);
    // In this order everybody who is invited finds the door attended.
    std::ranges::sort(lower);
    for (const int peer : lower) follow_invitation(peer);
    if (!higher.empty()) receive_guests(higher);
    return std::move(result_);
  }

 private:
  void follow_invitation(int peer) {
    Invitation invitation;
    await(receive_value(transport_, peer, invitation), peer);
    if (!is_sound(invitation))
      raise(ErrorKind::kSessionFailed, "rank {} sent a damaged message: no invitation to connect", peer);
    auto socket = dial(invitation, rank_, Clock::now() + options_.deadline);
    const Verdict own = socket ? Verdict::kGood : Verdict::kBad;
    Verdict theirs = Verdict::kBad;
    await(send_value(transport_, peer, own), peer);
    await(receive_value(transport_, peer, theirs), peer);
    settle(peer, std::move(socket), theirs);
  }

  struct Guest {
    int peer;
    Invitation invitation;
    Verdict own = Verdict::kBad;
    Verdict theirs = Verdict::kBad;
    Ticket sent{};
    Ticket answer{};
    bool has_answered = false;
    std::optional<TcpSocket> socket{};
  };

  void receive_guests(const std::vector<int>& peers) {
    std::optional<Door> door = open_door();
    const std::vector<IpAddress> addresses = door ? options_.addresses() : std::vector<IpAddress>{};
    std::vector<Guest> guests;
    for (const int peer : peers)
      guests.push_back({peer, door ? door->invite(peer, addresses) : Invitation{}});
    for (Guest& guest : guests) {
      guest.sent = send_value(transport_, guest.peer, guest.invitation);
      guest.answer = receive_value(transport_, guest.peer, guest.theirs);
    }
    await_answers(guests, door);
    for (Guest& guest : guests) {
      if (door && guest.theirs == Verdict::kGood) guest.socket = door->take(guest.peer);
      if (guest.socket) guest.own = Verdict::kGood;
      guest.sent = send_value(transport_, guest.peer, guest.own);
    }
    for (Guest& guest : guests) {
      await(guest.sent, guest.peer);
      settle(guest.peer, std::move(guest.socket), guest.theirs);
    }
  }

  static std::optional<Door> open_door() {
    try {
      return std::optional<Door>(std::in_place);
    } catch (const Error& error) {
      log_info(fmt::format("no other rank can connect to this one: {}", error.what()));
      return std::nullopt;
    }
  }

  void await_answers(std::vector<Guest>& guests, std::optional<Door>& door) {
    const TimePoint deadline = Clock::now() + options_.start_timeout;
    const auto has_answered = [this](Guest& guest) {
      // Whoever has answered has also got its invitation.
      guest.has_answered = guest.has_answered || transport_.done(guest.answer);
      return guest.has_answered;
    };
    while (std::ranges::count_if(guests, has_answered) < std::ssize(guests)) {
      if (Clock::now() > deadline) raise_late(std::ranges::find(guests, false, &Guest::has_answered)->peer);
      door ? door->serve(kServePause) : std::this_thread::yield();
    }
    for (Guest& guest : guests) await(guest.sent, guest.peer);
  }

  void settle(int peer, std::optional<TcpSocket> socket, Verdict theirs) {
    if (socket && theirs == Verdict::kGood) {
      result_.made.push_back({peer, std::move(*socket)});
    } else {
      result_.missing.push_back(peer);
    }
  }

  void await(Ticket ticket, int peer) {
    const TimePoint deadline = Clock::now() + options_.start_timeout;
    while (!transport_.done(ticket)) {
      if (Clock::now() > deadline) raise_late(peer);
      std::this_thread::yield();
    }
  }

  [[noreturn]] void raise_late(int peer) const {
    raise(ErrorKind::kSessionFailed,
          "rank {} did not come to connect within {} s (HORA_START_TIMEOUT_SECONDS)", peer,
          whole_seconds(options_.start_timeout));
  }

  Transport& transport_;
  const LinkOptions& options_;
  const int rank_;
  LinkAttempt result_;
};

}  // namespace

LinkAttempt connect_links(Transport& transport, std::span<const int> peers, const LinkOptions& options) {
  return Connecting(transport, options).run(peers);
}

}  // namespace hora
