#pragma once

#include <mpi.h>

#include <array>
#include <deque>
#include <memory>
#include <unordered_map>

#include "base/bell.h"
#include "transport/transport.h"

namespace hora {

/// Ranks as processes of an MPI job. Uses two communicators of its own, one for agreement and one for data,
/// and after construction only non-blocking point-to-point calls on them.
///
/// Agreement travels in frames below MPI's eager limit, so that a message is on its way as soon as it is
/// posted, even if the sender does not call MPI again.
class MpiTransport final : public Transport {
 public:
  /// Collective over `members`. `host_split` makes hosts up; empty asks MPI.
  MpiTransport(MPI_Comm members, const std::vector<int>& host_split);
  ~MpiTransport() override;

  [[nodiscard]] std::string_view name() const override { return "mpi"; }
  [[nodiscard]] const Topology& topology() const override { return topology_; }
  void post(int peer, Bytes message) override;
  [[nodiscard]] bool receive(Incoming& incoming) override;
  [[nodiscard]] bool flushed() override;
  [[nodiscard]] bool moves_only_when_called() const override { return true; }
  [[nodiscard]] Ticket send(int peer, int tag, std::span<const std::byte> data) override;
  [[nodiscard]] Ticket recv(int peer, int tag, std::span<std::byte> data) override;
  [[nodiscard]] bool done(Ticket& ticket) override;
  void sleep(Duration at_most) override { bell_.sleep(at_most); }
  [[nodiscard]] bool notices_arrivals() const override { return false; }
  void nap(Duration at_most) override { bell_.sleep(at_most); }
  void nudge() override { bell_.ring(); }
  void wake() override { bell_.ring(); }

 private:
  // Open MPI sends up to 4 KiB at once over shared memory, headers included.
  static constexpr std::size_t kFrameBytes = 4000;
  // Receives posted ahead; MPI fills them in the order of posting.
  static constexpr std::size_t kSlots = 8;

  using Frame = std::array<std::byte, kFrameBytes>;
  using Frames = std::array<Frame, kSlots>;
  struct Sending {
    MPI_Request request;
    Bytes frame;
  };
  void post_receive(std::size_t slot);
  [[nodiscard]] bool add_frame(int peer, std::span<const std::byte> frame, Incoming& incoming);

  MPI_Comm control_;
  MPI_Comm data_;
  const Topology topology_;
  std::deque<Sending> sending_;
  std::unique_ptr<Frames> frames_ = std::make_unique<Frames>();
  std::array<MPI_Request, kSlots> receiving_;
  std::size_t next_slot_ = 0;
  std::unordered_map<int, Bytes> partial_;  // by sender: a message of several frames
  std::size_t under_way_ = 0;               // sends and receives of data that are not known to be complete
  Bell bell_;
};

}  // namespace hora
