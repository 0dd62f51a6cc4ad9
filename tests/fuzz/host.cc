// How two ranks of a host come to share memory, one of which does not keep to what was agreed.

#include "host.h"

#include <fcntl.h>

#include <cstring>
#include <thread>

#include "base/socket.h"
#include "fuzz.h"
#include "transport/memory.h"
#include "transport/shm/host_memory.h"
#include "transport/shm/invitation.h"

namespace hora::fuzz {
namespace {

constexpr HostLayout kLayout{2, kPage, kPage};
constexpr auto kAtMost = std::chrono::milliseconds(20);

HostMemoryOptions options() {
  HostMemoryOptions options;
  options.slot_bytes = 1;  // a page
  options.heap_bytes = kLayout.heap_bytes;
  options.start_timeout = kAtMost;
  return options;
}

/// The rank that does as the input says, and the one that is watched.
class Pair {
 public:
  explicit Pair(int rank)
      : own_(fabric_, Topology(rank, {0, 0})), other_(fabric_, Topology(1 - rank, {0, 0})) {}

  [[nodiscard]] HostConnection connect() { return connect_host(own_, options()); }

  template <typename T>
  void tell(const T& value) {
    static_cast<void>(
        other_.send(own_.topology().rank(), Transport::kStartTag, std::as_bytes(std::span(&value, 1))));
  }

  template <typename T>
  [[nodiscard]] bool hear(T& value) {
    const TimePoint deadline = Clock::now() + kAtMost;
    Ticket ticket = other_.recv(own_.topology().rank(), Transport::kStartTag,
                                std::as_writable_bytes(std::span(&value, 1)));
    while (!other_.done(ticket)) {
      if (Clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

 private:
  const std::shared_ptr<MemoryFabric> fabric_ = make_memory_fabric(2);
  MemoryTransport own_;
  MemoryTransport other_;
};

void hand(const LocalSocket& socket, int file, int count) {
  socket.send_descriptors(std::vector<int>(static_cast<std::size_t>(count), file), Clock::now() + kAtMost);
}

void go(const LocalSocket& socket, ByteReader& in, const Segment& segment) {
  const auto step = in.one_of<HostStep>(kHostSteps);
  if (step == HostStep::kSay) {
    const std::string text = in.text();
    return socket.send(std::as_bytes(std::span(text)), Clock::now() + kAtMost);
  }
  const int count = in.up_to(kMostAtOnce);
  switch (step) {
    case HostStep::kHear: {
      Bytes heard(static_cast<std::size_t>(count));
      return socket.receive(heard, Clock::now() + kAtMost);
    }
    case HostStep::kHandEvents:
      return hand(socket, make_event().get(), count);
    case HostStep::kHandProcesses:
      return hand(socket, watchable_self().process.get(), count);
    default:
      return hand(socket, segment.file(), count);
  }
}

/// Ends when the other one has hung up, or before.
void follow_script(const LocalSocket& socket, ByteReader& in) {
  const Segment segment = Segment::create(kLayout.total_bytes(), "");
  while (!in.empty()) go(socket, in, segment);
}

/// Memory that a rank was given can be used.
void require_usable(const HostConnection& connection) {
  require((connection.memory == nullptr) == !connection.reason.empty());
  if (connection.memory == nullptr) return;
  const HostMemory& memory = *connection.memory;
  require(memory.size() == 2);
  for (int rank = 0; rank < 2; ++rank) {
    memory.ring(1 - rank, rank).consumed.store(0);
    memory.slot(rank, HostLayout::kSlots - 1).back() = std::byte{1};
  }
}

template <typename Other>
void connect_while(Pair& pair, Other other) {
  const std::jthread thread([&] {
    try {
      other();
    } catch (const Error&) {  // that the other one gave up
    }
  });
  require_usable(pair.connect());
}

/// Of a host with any number of ranks that there can be.
void check_layout(const HostLayout& layout) {
  if (layout.ranks == 0 || layout.ranks > 4096 || !layout.is_sound(layout.ranks)) return;
  require(layout.fixed_bytes() > layout.slot(layout.ranks - 1, HostLayout::kSlots - 1));
  require(layout.total_bytes() >= layout.fixed_bytes());
  require(layout.slot_bytes / layout.ranks >= kLine);  // some collectives give each rank a section of a slot
}

void follow_invitation(std::span<const std::byte> said) {
  HostInvitation invitation;
  std::memcpy(static_cast<void*>(&invitation), said.data(), std::min(sizeof(invitation), said.size()));
  check_layout(invitation.layout);
  Pair pair(1);
  pair.tell(invitation);
  require_usable(pair.connect());
}

void face_leader(ByteReader& in) {
  const LocalListener listener;
  HostInvitation invitation{.layout = kLayout};
  invitation.name_listener(listener.name());
  Pair pair(1);
  pair.tell(invitation);
  connect_while(pair, [&] { follow_script(listener.accept(Clock::now() + kAtMost), in); });
}

void face_member(ByteReader& in) {
  Pair pair(0);
  pair.tell(Refusal());
  connect_while(pair, [&] {
    HostInvitation invitation;
    if (!pair.hear(invitation) || invitation.refusal) return;
    const TimePoint deadline = Clock::now() + kAtMost;
    const LocalSocket socket = LocalSocket::connect(text_in(invitation.listener), deadline);
    const HostGreeting greeting{invitation.secret, 1};
    socket.send(std::as_bytes(std::span(&greeting, 1)), deadline);
    follow_script(socket, in);
  });
}

void find_memory(ByteReader& in) {
  const int rank = in.up_to(1);
  const auto offset = in.fixed<std::int64_t>();
  const auto bytes = in.fixed<std::uint64_t>();
  std::vector<HostMember> members(2);
  for (HostMember& member : members) member = {make_event(), watchable_self().process};
  Segment segment = Segment::create(kLayout.total_bytes(), "");
  const std::byte* const heap = segment.data() + kLayout.heap(static_cast<std::size_t>(rank));
  const HostMemory memory(std::move(segment), kLayout, 0, std::move(members), {});
  const std::byte* const found = memory.memory_at(rank, offset, bytes);
  require(found >= heap && found + bytes <= heap + kLayout.heap_bytes);
}

}  // namespace

void take(std::span<const std::byte> input) {
  ByteReader in(input);
  switch (in.one_of<HostPart>(kHostParts)) {
    case HostPart::kInvitation:
      return follow_invitation(input.subspan(1));
    case HostPart::kLeader:
      return face_leader(in);
    case HostPart::kMember:
      return face_member(in);
    case HostPart::kOffset:
      return find_memory(in);
  }
}

}  // namespace hora::fuzz
