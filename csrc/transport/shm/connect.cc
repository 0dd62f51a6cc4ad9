#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/event.h"
#include "base/socket.h"
#include "base/text.h"
#include "transport/shm/host_memory.h"

namespace hora {
namespace {

// All slots of a host together; they should stay in its caches.
constexpr std::size_t kAllSlotBytes = std::size_t{64} << 20;
constexpr std::size_t kLeastSlotBytes = 32 * 1024;

constexpr const char* kNotWanted = "it is switched off";

/// What the leader tells the others over the transport.
struct Invitation {
  HostLayout layout;
  std::array<char, 64> listener{};
  std::array<char, 256> refusal{};  ///< not empty: there is no shared memory, and why
};

template <std::size_t kSize>
void put(std::array<char, kSize>& field, const std::string& text) {
  field.fill(0);
  std::ranges::copy(text.substr(0, kSize - 1), field.begin());
}

enum class Verdict : std::uint8_t { kGood, kBad };

HostLayout choose_layout(int ranks, const HostMemoryOptions& options) {
  const auto pages = [](std::size_t bytes) { return std::max(bytes / kPage, std::size_t{1}) * kPage; };
  const auto count = static_cast<std::size_t>(ranks);
  const std::size_t share = std::max(kAllSlotBytes / (count * HostLayout::kSlots), kLeastSlotBytes);
  // Some collectives give each rank a section of a slot.
  const std::size_t slot = std::max(std::min(options.slot_bytes, share), count * kLine);
  return {count, pages(slot + kPage - 1), pages(options.heap_bytes)};
}

template <typename T>
void send_value(const LocalSocket& socket, const T& value, TimePoint deadline) {
  socket.send(std::as_bytes(std::span(&value, 1)), deadline);
}

template <typename T>
T receive_value(const LocalSocket& socket, TimePoint deadline) {
  T value{};
  socket.receive(std::as_writable_bytes(std::span(&value, 1)), deadline);
  return value;
}

/// One rank's part in the coming together.
class Connecting {
 public:
  Connecting(Transport& transport, const HostMemoryOptions& options)
      : transport_(transport),
        options_(options),
        rank_(transport.topology().local_rank()),
        ranks_(transport.topology().ranks_on(transport.topology().host_of(transport.topology().rank()))),
        deadline_(Clock::now() + options.deadline) {}

  [[nodiscard]] HostConnection run() {
    try {
      return {rank_ == 0 ? lead() : follow(), {}};
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kStartup) throw;
      return {nullptr, error.what()};
    }
  }

 private:
  using MemoryPtr = std::unique_ptr<HostMemory>;

  void invite(const Invitation& invitation) {
    std::vector<Ticket> tickets;
    for (std::size_t member = 1; member < ranks_.size(); ++member)
      tickets.push_back(
          transport_.send(ranks_[member], Transport::kStartTag, std::as_bytes(std::span(&invitation, 1))));
    for (Ticket& ticket : tickets) await(ticket);
  }

  void await(Ticket& ticket) {
    while (!transport_.done(ticket)) {
      if (Clock::now() > deadline_)
        raise(ErrorKind::kSessionFailed, "the ranks of this host did not come together in {} s",
              options_.deadline.count());
      std::this_thread::yield();
    }
  }

  MemoryPtr lead() {
    std::optional<Segment> segment;
    std::optional<LocalListener> listener;
    Invitation invitation{.layout = choose_layout(static_cast<int>(ranks_.size()), options_)};
    const HostLayout& layout = invitation.layout;
    try {
      if (!options_.wanted) raise(ErrorKind::kStartup, "{}", kNotWanted);
      segment = Segment::create(layout.total_bytes(), options_.directory);
      segment->reserve(0, layout.fixed_bytes());
      segment = options_.open(Descriptor(fcntl(segment->file(), F_DUPFD_CLOEXEC, 0)), layout.total_bytes());
      listener.emplace();
      put(invitation.listener, listener->name());
    } catch (const Error& error) {
      put(invitation.refusal, error.what());
      invite(invitation);
      throw;
    }
    invite(invitation);
    return hand_out(std::move(*segment), layout, *listener);
  }

  [[nodiscard]] static HostMember make_member() { return {make_event(), watchable_self()}; }

  /// Gets from every member what it has for the others, then gives each that of all. A member that hangs up
  /// instead, or is late, ends the attempt: the others see the leader hang up in turn.
  MemoryPtr hand_out(Segment segment, const HostLayout& layout, const LocalListener& listener) {
    std::vector<std::pair<int, LocalSocket>> sockets;
    std::vector<HostMember> members(ranks_.size());
    members[0] = make_member();
    while (sockets.size() + 1 < ranks_.size()) {
      LocalSocket socket = listener.accept(deadline_);
      const int file = segment.file();
      socket.send_descriptors({&file, 1}, deadline_);
      const auto member = receive_value<std::uint32_t>(socket, deadline_);
      if (member == 0 || member >= members.size() || members[member].bell)
        raise(ErrorKind::kStartup, "a process that is no rank of this host answered");
      members[member] = std::move(receive_members(socket, 1).front());
      sockets.emplace_back(static_cast<int>(member), std::move(socket));
    }
    for (const auto& [member, socket] : sockets) send_members(socket, members);
    for (const auto& [member, socket] : sockets) {
      if (receive_value<Verdict>(socket, deadline_) != Verdict::kGood)
        raise(ErrorKind::kStartup, "a rank of this host could not take part");
    }
    for (const auto& [member, socket] : sockets) send_value(socket, Verdict::kGood, deadline_);
    return std::make_unique<HostMemory>(std::move(segment), layout, 0, std::move(members));
  }

  void send_members(const LocalSocket& socket, std::span<const HostMember> members) const {
    std::vector<int> bells;
    std::vector<int> processes;
    for (const HostMember& member : members) {
      bells.push_back(member.bell.get());
      processes.push_back(member.process.get());
    }
    socket.send_descriptors(bells, deadline_);
    socket.send_descriptors(processes, deadline_);
  }

  [[nodiscard]] std::vector<HostMember> receive_members(const LocalSocket& socket, std::size_t count) const {
    std::vector<Descriptor> bells = socket.receive_descriptors(count, deadline_);
    std::vector<Descriptor> processes = socket.receive_descriptors(count, deadline_);
    std::vector<HostMember> members;
    for (std::size_t number = 0; number < count; ++number)
      members.push_back({std::move(bells[number]), std::move(processes[number])});
    return members;
  }

  MemoryPtr follow() {
    Invitation invitation;
    Ticket ticket = transport_.recv(ranks_.front(), Transport::kStartTag,
                                    std::as_writable_bytes(std::span(&invitation, 1)));
    await(ticket);
    if (invitation.refusal.front() != 0) raise(ErrorKind::kStartup, "{}", text_in(invitation.refusal));
    if (!invitation.layout.is_sound(ranks_.size()))
      raise(ErrorKind::kSessionFailed, "rank {} sent a damaged message: no layout of shared memory",
            ranks_.front());
    const LocalSocket socket = LocalSocket::connect(text_in(invitation.listener), deadline_);
    auto file = socket.receive_descriptors(1, deadline_);
    Segment segment = options_.open(std::move(file.front()), invitation.layout.total_bytes());
    const HostMember own = make_member();
    send_value(socket, static_cast<std::uint32_t>(rank_), deadline_);
    send_members(socket, {&own, 1});
    auto members = receive_members(socket, ranks_.size());
    send_value(socket, Verdict::kGood, deadline_);
    if (receive_value<Verdict>(socket, deadline_) != Verdict::kGood)
      raise(ErrorKind::kStartup, "a rank of this host could not take part");
    return std::make_unique<HostMemory>(std::move(segment), invitation.layout, rank_, std::move(members));
  }

  Transport& transport_;
  const HostMemoryOptions& options_;
  const int rank_;
  const std::vector<int>& ranks_;
  const TimePoint deadline_;
};

}  // namespace

HostConnection connect_host(Transport& transport, const HostMemoryOptions& options) {
  return Connecting(transport, options).run();
}

}  // namespace hora
