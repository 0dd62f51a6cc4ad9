#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/event.h"
#include "base/log.h"
#include "base/open_files.h"
#include "base/socket.h"
#include "transport/shm/host_memory.h"
#include "transport/shm/invitation.h"

namespace hora {
namespace {

// All slots of a host together; they should stay in its caches.
constexpr std::size_t kAllSlotBytes = std::size_t{64} << 20;
constexpr std::size_t kLeastSlotBytes = 32 * 1024;

constexpr const char* kNotWanted = "it is switched off";

// A rank greets as soon as it is connected.
constexpr auto kGreetingTime = std::chrono::seconds(5);
// How long the ranks of a host, all of which are there, may take to connect: less than those of other hosts
// wait.
constexpr auto kMeetingTime = std::chrono::seconds(30);

/// Descriptors that a rank opens to share memory with so many others, more than it keeps.
std::size_t files_needed(std::size_t ranks, bool is_leader) {
  constexpr std::size_t kOwn = 8;
  constexpr std::size_t kOfEachRank = 2;  // its bell and its process
  return kOwn + ranks * (kOfEachRank + (is_leader ? 1 : 0));
}

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
        deadline_(Clock::now() + options.start_timeout) {}

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

  void await(Ticket ticket) const {
    while (!transport_.done(ticket)) {
      if (Clock::now() > deadline_) raise_late();
      std::this_thread::yield();
    }
  }

  [[noreturn]] void raise_late() const {
    raise(ErrorKind::kSessionFailed,
          "the ranks of this host did not come together in {} s (HORA_START_TIMEOUT_SECONDS)",
          whole_seconds(options_.start_timeout));
  }

  template <typename T>
  [[nodiscard]] Ticket tell(int rank, const T& value) const {
    return transport_.send(rank, Transport::kStartTag, std::as_bytes(std::span(&value, 1)));
  }

  template <typename T>
  [[nodiscard]] T hear(int rank) const {
    T value{};
    await(transport_.recv(rank, Transport::kStartTag, std::as_writable_bytes(std::span(&value, 1))));
    return value;
  }

  [[nodiscard]] Refusal own_shortage() const {
    return Refusal(shortage_of_files(files_needed(ranks_.size(), rank_ == 0)));
  }

  void invite(const HostInvitation& invitation) const {
    std::vector<Ticket> tickets;
    for (std::size_t member = 1; member < ranks_.size(); ++member)
      tickets.push_back(tell(ranks_[member], invitation));
    for (const Ticket ticket : tickets) await(ticket);
  }

  /// What a rank knows to lack it says before anything is tried.
  void require_all_able() const {
    std::vector<Refusal> refusals{own_shortage()};
    for (std::size_t member = 1; member < ranks_.size(); ++member)
      refusals.push_back(hear<Refusal>(ranks_[member]));
    for (std::size_t member = 0; member < ranks_.size(); ++member)
      if (refusals[member]) raise_refusal(member, refusals[member]);
  }

  [[noreturn]] void raise_refusal(std::size_t member, const Refusal& refusal) const {
    raise(ErrorKind::kStartup, "rank {}: {}", ranks_[member], refusal.text());
  }

  MemoryPtr lead() {
    std::optional<Segment> segment;
    std::optional<LocalListener> listener;
    HostInvitation invitation{.layout = choose_layout(static_cast<int>(ranks_.size()), options_)};
    const HostLayout& layout = invitation.layout;
    try {
      require_all_able();
      if (!options_.wanted) raise(ErrorKind::kStartup, "{}", kNotWanted);
      segment = Segment::create(layout.total_bytes(), options_.directory);
      segment->reserve(0, layout.fixed_bytes());
      segment = options_.open(Descriptor(fcntl(segment->file(), F_DUPFD_CLOEXEC, 0)), layout.total_bytes());
      listener.emplace();
      invitation.name_listener(listener->name());
      invitation.secret = make_secret();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kStartup) {
        invitation.refusal = Refusal(error.what());
        invite(invitation);
      }
      throw;
    }
    invite(invitation);
    return hand_out(std::move(*segment), layout, *listener, invitation.secret);
  }

  [[nodiscard]] HostMember make_member() {
    Watchable self = watchable_self();
    kept_ = std::move(self.kept);
    if (rank_ == 0 && !self.lack.empty())
      log_warning(
          fmt::format("the ranks of this host watch each other by pipes, because they cannot do it otherwise "
                      "({}): the end of one is noticed late if processes live on that it has cloned",
                      self.lack));
    return {make_event(), std::move(self.process)};
  }

  /// Done by every rank before all are told that they go on together: from then on nothing may go wrong.
  [[nodiscard]] MemoryPtr make_memory(Segment segment, const HostLayout& layout,
                                      std::vector<HostMember> members) {
    return std::make_unique<HostMemory>(std::move(segment), layout, rank_, std::move(members),
                                        std::move(kept_));
  }

  /// Gets from every member what it has for the others, then gives each that of all. A member that does not
  /// come, or hangs up after its greeting, ends the attempt: the others see the leader hang up in turn.
  MemoryPtr hand_out(Segment segment, const HostLayout& layout, const LocalListener& listener,
                     const Secret& secret) {
    std::vector<std::pair<std::size_t, LocalSocket>> sockets;
    std::vector<HostMember> members(ranks_.size());
    members[0] = make_member();
    const TimePoint until = std::min<TimePoint>(deadline_, Clock::now() + kMeetingTime);
    while (sockets.size() + 1 < ranks_.size()) {
      LocalSocket socket = listener.accept(until);
      const std::size_t member = member_at(socket, secret);
      if (member == 0 || member >= members.size() || members[member].bell) continue;  // a stranger
      const int file = segment.file();
      socket.send_descriptors({&file, 1}, deadline_);
      require_able(member, socket);
      members[member] = std::move(receive_members(socket, 1).front());
      sockets.emplace_back(member, std::move(socket));
    }
    for (const auto& [member, socket] : sockets) send_members(socket, members);
    MemoryPtr memory = make_memory(std::move(segment), layout, std::move(members));
    for (const auto& [member, socket] : sockets) require_able(member, socket);
    for (const auto& [member, socket] : sockets) tell_to_go_on(socket);
    return memory;
  }

  /// A member that does not hear it has ended, or ends the job; the others have been told, or are now.
  void tell_to_go_on(const LocalSocket& socket) const {
    try {
      send_value(socket, Refusal(), deadline_);
    } catch (const Error& error) {
      log_info(fmt::format("a rank of this host did not hear that all share memory: {}", error.what()));
    }
  }

  /// A leader that hangs up has told nobody to go on. One that is late may have told the others.
  void await_decision(const LocalSocket& socket) const {
    try {
      if (const auto refusal = receive_value<Refusal>(socket, deadline_))
        raise(ErrorKind::kStartup, "{}", refusal.text());
    } catch (const Error&) {
      if (Clock::now() > deadline_) raise_late();
      throw;
    }
  }

  /// 0 when it is none of a rank of this job.
  [[nodiscard]] std::size_t member_at(const LocalSocket& socket, const Secret& secret) const {
    try {
      const auto greeting =
          receive_value<HostGreeting>(socket, std::min(deadline_, Clock::now() + kGreetingTime));
      return is_same(greeting.secret, secret) ? greeting.member : 0;
    } catch (const Error&) {
      return 0;
    }
  }

  void require_able(std::size_t member, const LocalSocket& socket) const {
    if (const auto refusal = receive_value<Refusal>(socket, deadline_)) raise_refusal(member, refusal);
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

  /// Does a part of the work, and tells the leader what came of it.
  template <typename Part>
  auto attempt(const LocalSocket& socket, Part part) const {
    try {
      auto result = part();
      send_value(socket, Refusal(), deadline_);
      return result;
    } catch (const Error& error) {
      send_value(socket, Refusal(error.what()), deadline_);
      throw;
    }
  }

  MemoryPtr follow() {
    const int leader = ranks_.front();
    await(tell(leader, own_shortage()));
    const auto invitation = hear<HostInvitation>(leader);
    if (invitation.refusal) raise(ErrorKind::kStartup, "{}", invitation.refusal.text());
    if (!invitation.layout.is_sound(ranks_.size()))
      raise(ErrorKind::kSessionFailed, "rank {} sent a damaged message: no layout of shared memory", leader);
    const LocalSocket socket = LocalSocket::connect(text_in(invitation.listener), deadline_);
    send_value(socket, HostGreeting{invitation.secret, static_cast<std::uint32_t>(rank_)}, deadline_);
    HostMember own;
    Segment segment = attempt(socket, [&] {
      auto file = socket.receive_descriptors(1, deadline_);
      own = make_member();
      return options_.open(std::move(file.front()), invitation.layout.total_bytes());
    });
    send_members(socket, {&own, 1});
    MemoryPtr memory = attempt(socket, [&] {
      return make_memory(std::move(segment), invitation.layout, receive_members(socket, ranks_.size()));
    });
    await_decision(socket);
    return memory;
  }

  Transport& transport_;
  const HostMemoryOptions& options_;
  const int rank_;
  const std::vector<int>& ranks_;
  const TimePoint deadline_;
  Descriptor kept_;
};

}  // namespace

HostConnection connect_host(Transport& transport, const HostMemoryOptions& options) {
  return Connecting(transport, options).run();
}

}  // namespace hora
