#include "transport/shm/shm_transport.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/socket.h"
#include "support/forwarding_transport.h"
#include "support/inbox.h"
#include "support/run_ranks.h"
#include "transport/shm/invitation.h"

namespace hora::testing {
namespace {

using namespace std::chrono_literals;

TEST(HostLayout, is_sound_only_where_its_ranks_and_pages_are) {
  const HostLayout layout{3, 2 * kPage, 8 * kPage};
  EXPECT_TRUE(layout.is_sound(3));
  EXPECT_FALSE(layout.is_sound(4));
  EXPECT_FALSE((HostLayout{3, 0, kPage}.is_sound(3)));
  EXPECT_FALSE((HostLayout{3, kPage + 1, kPage}.is_sound(3)));
  EXPECT_FALSE((HostLayout{3, kPage, std::size_t{1} << 60}.is_sound(3)));
  EXPECT_FALSE((HostLayout{3, std::size_t{1} << 60, kPage}.is_sound(3)));
  EXPECT_TRUE((HostLayout{kPage / kLine, kPage, kPage}.is_sound(kPage / kLine)));
  EXPECT_FALSE((HostLayout{kPage / kLine + 1, kPage, kPage}.is_sound(kPage / kLine + 1)));
}

TEST(Segment, in_a_file_that_is_shorter_is_an_error) {
  const Segment segment = Segment::create(kPage, "");
  EXPECT_NO_THROW(std::ignore = Segment::open(Descriptor(dup(segment.file())), kPage));
  EXPECT_THROW(std::ignore = Segment::open(Descriptor(dup(segment.file())), 2 * kPage), Error);
}

TEST(ShmTransport, a_message_wakes_a_sleeper) {
  run_transports(2,
                 [](Transport& transport) {
                   Inbox inbox(transport);
                   for (int round = 0; round < 100; ++round) {
                     if (transport.topology().rank() == 0) {
                       transport.post(1, Bytes(3));
                       static_cast<void>(inbox.next_from(1));
                     } else {
                       const TimePoint start = Clock::now();
                       Incoming incoming;
                       while (!transport.receive(incoming)) transport.sleep(20s);
                       EXPECT_LT(Clock::now() - start, 10s);
                       transport.post(0, Bytes(3));
                     }
                   }
                 },
                 {.shared_memory = true});
}

TEST(ShmTransport, a_nudge_ends_a_sleep_but_not_a_nap) {
  run_transports(2,
                 [](Transport& transport) {
                   transport.nudge();
                   const TimePoint start = Clock::now();
                   transport.sleep(20s);  // a nudge just before counts
                   EXPECT_LT(Clock::now() - start, 10s);
                   const TimePoint nap = Clock::now();
                   transport.nudge();
                   transport.nap(20ms);
                   EXPECT_GE(Clock::now() - nap, 20ms);
                   transport.wake();
                   const TimePoint woken = Clock::now();
                   transport.nap(20s);
                   EXPECT_LT(Clock::now() - woken, 10s);
                   Inbox(transport).meet();
                 },
                 {.shared_memory = true});
}

TEST(ShmTransport, one_who_looks_after_arrivals_is_not_disturbed_for_them) {
  run_transports(2,
                 [](Transport& transport) {
                   std::atomic<bool> is_up{false};
                   std::thread sleeper([&] {
                     transport.sleep(20s);
                     is_up = true;
                   });
                   wait_for([&] {
                     transport.stay_up();
                     return is_up.load();
                   });
                   sleeper.join();
                   Inbox(transport).meet();
                 },
                 {.shared_memory = true});
}

TEST(HostMemory, that_cannot_be_had_is_told_to_all_ranks_alike) {
  const auto body = [](Transport& transport) {
    HostMemoryOptions options;
    options.directory = "/nonexistent";
    const HostConnection connection = connect_host(transport, options);
    EXPECT_EQ(connection.memory, nullptr);
    EXPECT_NE(connection.reason.find("/nonexistent"), std::string::npos) << connection.reason;
    Inbox(transport).meet();
  };
  run_transports(3, body, {.shared_memory = false});
}

TEST(HostMemory, that_one_rank_cannot_map_is_used_by_none) {
  const auto body = [](Transport& transport) {
    HostMemoryOptions options;
    options.heap_bytes = 1 << 20;
    if (transport.topology().rank() == 2)
      options.open = [](Descriptor, std::size_t) -> Segment { raise(ErrorKind::kStartup, "no room"); };
    const HostConnection connection = connect_host(transport, options);
    EXPECT_EQ(connection.memory, nullptr);
    EXPECT_FALSE(connection.reason.empty());
    Inbox(transport).meet();
  };
  run_transports(3, body, {.shared_memory = false});
}

/// What a process gets that has found the leader's socket and sends it this.
std::string visit(const std::string& name, std::span<const std::byte> greeting) {
  const TimePoint deadline = Clock::now() + 20s;
  try {
    const LocalSocket socket = LocalSocket::connect(name, deadline);
    socket.send(greeting, deadline);
    static_cast<void>(socket.receive_descriptors(1, deadline));
    return "the memory";
  } catch (const Error& error) {
    return error.what();
  }
}

/// Sends strangers to the leader when its rank has been invited, before it comes itself.
class VisitedTransport final : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;

  [[nodiscard]] Ticket recv(int peer, int tag, std::span<std::byte> data) override {
    if (data.size() == sizeof(HostInvitation)) invitation_ = data;
    return ForwardingTransport::recv(peer, tag, data);
  }

  [[nodiscard]] bool done(Ticket& ticket) override {
    if (!ForwardingTransport::done(ticket)) return false;
    if (!invitation_.empty()) send_strangers(std::exchange(invitation_, {}));
    return true;
  }

  [[nodiscard]] const std::vector<std::string>& answers() const { return answers_; }

 private:
  void send_strangers(std::span<const std::byte> bytes) {
    HostInvitation invitation;
    std::memcpy(static_cast<void*>(&invitation), bytes.data(), sizeof(invitation));
    const std::string name = text_in(invitation.listener);
    HostGreeting almost{invitation.secret, 2};
    almost.secret.back() ^= std::byte{1};
    const auto greeting = std::as_bytes(std::span(&almost, 1));
    const std::vector<std::byte> longer(greeting.size() + 100, std::byte{1});
    for (const std::span<const std::byte> each : {greeting, std::span<const std::byte>(longer)})
      answers_.push_back(visit(name, each));
  }

  std::span<const std::byte> invitation_;
  std::vector<std::string> answers_;
};

TEST(HostMemory, is_not_handed_to_a_stranger_and_the_ranks_come_together_all_the_same) {
  RunOptions options{.shared_memory = false};
  VisitedTransport* visited = nullptr;
  std::vector<std::string> answers;
  options.wrap = [&](std::unique_ptr<Transport> inner) -> std::unique_ptr<Transport> {
    if (inner->topology().rank() != 1) return inner;
    auto transport = std::make_unique<VisitedTransport>(std::move(inner));
    visited = transport.get();
    return transport;
  };
  const auto body = [&](Transport& transport) {
    HostMemoryOptions small;
    small.heap_bytes = 1 << 20;
    EXPECT_NE(connect_host(transport, small).memory, nullptr);
    if (transport.topology().rank() == 1) answers = visited->answers();
  };
  run_transports(3, body, options);
  EXPECT_EQ(answers, std::vector<std::string>(2, "another process of this host gave up or ended"));
}

TEST(HostMemory, allocated_outlives_the_session_and_is_known_by_its_place) {
  std::shared_ptr<std::byte[]> kept;
  run_transports(2,
                 [&](Transport& transport) {
                   const HostMemory& memory = *transport.host_memory();
                   auto block = memory.allocate(5000);
                   const std::int64_t offset = memory.offset_of(block.get(), 5000);
                   EXPECT_NE(offset, HostMemory::kElsewhere);
                   EXPECT_EQ(memory.memory_at(memory.rank(), offset, 5000), block.get());
                   std::byte elsewhere{};
                   EXPECT_EQ(memory.offset_of(&elsewhere, 1), HostMemory::kElsewhere);
                   EXPECT_EQ(memory.offset_of(block.get(), memory.layout().heap_bytes + 1),
                             HostMemory::kElsewhere);
                   if (memory.rank() == 0) kept = std::move(block);
                   Inbox(transport).meet();
                 },
                 {.shared_memory = true});
  kept[4999] = std::byte{1};
  kept.reset();
}

TEST(HostMemory, an_offset_outside_of_a_heap_is_a_damaged_message) {
  run_transports(2,
                 [](Transport& transport) {
                   const HostMemory& memory = *transport.host_memory();
                   const auto heap = static_cast<std::int64_t>(memory.layout().heap(0));
                   const std::size_t length = memory.layout().heap_bytes;
                   EXPECT_NO_THROW(static_cast<void>(memory.memory_at(0, heap, length)));
                   for (const std::int64_t offset : {std::int64_t{-1}, heap - 1, heap + 1})
                     EXPECT_THROW(static_cast<void>(memory.memory_at(0, offset, length)), Error) << offset;
                   EXPECT_THROW(static_cast<void>(memory.memory_at(0, heap, length + 1)), Error);
                   EXPECT_THROW(static_cast<void>(memory.memory_at(1, heap, 1)), Error);
                   Inbox(transport).meet();
                 },
                 {.shared_memory = true});
}

TEST(HostMemory, says_what_is_missing_when_the_heap_is_full) {
  run_transports(2,
                 [](Transport& transport) {
                   const HostMemory& memory = *transport.host_memory();
                   try {
                     static_cast<void>(memory.allocate(memory.layout().heap_bytes + 1));
                     ADD_FAILURE();
                   } catch (const Error& error) {
                     EXPECT_NE(std::string(error.what()).find("HORA_SHARED_HEAP_BYTES"), std::string::npos);
                   }
                   EXPECT_NE(memory.allocate(memory.layout().heap_bytes), nullptr);
                   Inbox(transport).meet();
                 },
                 {.shared_memory = true});
}

TEST(Segment, says_how_much_is_needed_and_how_much_is_free) {
  const std::size_t bytes = std::filesystem::space("/dev/shm").capacity / kPage * kPage * 2;
  try {
    const Segment segment = Segment::create(bytes, "/dev/shm");
    segment.reserve(0, bytes);
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find(fmt::format("{} bytes are needed", bytes)), std::string::npos) << text;
    EXPECT_NE(text.find("are free"), std::string::npos) << text;
  }
}

TEST(Segment, has_no_name_that_could_be_left_behind) {
  const Segment segment = Segment::create(1 << 20, "/dev/shm");
  struct stat status{};
  ASSERT_EQ(fstat(segment.file(), &status), 0);
  EXPECT_EQ(status.st_nlink, 0u);
  EXPECT_EQ(status.st_mode & 077u, 0u);
}

}  // namespace
}  // namespace hora::testing
