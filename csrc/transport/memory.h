#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_set>
#include <utility>

#include "transport/transport.h"

namespace hora {

class MemoryFabric;

/// Ranks as threads of one process: for tests, and for a job of one rank. Data is copied into the receiver's
/// mailbox when it is sent, so a send is complete at once.
class MemoryTransport final : public Transport {
 public:
  MemoryTransport(std::shared_ptr<MemoryFabric> fabric, Topology topology);
  ~MemoryTransport() override;

  [[nodiscard]] std::string_view name() const override { return "local"; }
  [[nodiscard]] const Topology& topology() const override { return topology_; }
  void post(int peer, Bytes message) override;
  [[nodiscard]] bool receive(Incoming& incoming) override;
  [[nodiscard]] bool flushed() override { return true; }
  [[nodiscard]] Ticket send(int peer, int tag, std::span<const std::byte> data) override;
  [[nodiscard]] Ticket recv(int peer, int tag, std::span<std::byte> data) override;
  [[nodiscard]] bool done(Ticket& ticket) override;
  void sleep(Duration at_most) override;
  [[nodiscard]] bool notices_arrivals() const override { return true; }
  void nap(Duration at_most) override { sleep(at_most); }
  void nudge() override { wake(); }
  void wake() override;

 private:
  struct Posted {
    std::uintptr_t ticket;
    std::span<std::byte> data;
  };
  void match();

  std::shared_ptr<MemoryFabric> fabric_;
  const Topology topology_;
  std::uintptr_t last_ticket_ = 0;
  std::map<std::pair<int, int>, std::deque<Posted>> posted_;  // by (peer, tag), oldest first
  std::unordered_set<std::uintptr_t> completed_;
};

/// The mailboxes of all ranks of a job.
[[nodiscard]] std::shared_ptr<MemoryFabric> make_memory_fabric(int size);

/// A job of one rank.
[[nodiscard]] std::unique_ptr<Transport> make_local_transport();

}  // namespace hora
