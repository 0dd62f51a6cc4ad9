#pragma once

#include <memory>
#include <utility>

#include "transport/transport.h"

namespace hora::testing {

/// Passes every call on to another transport; a test overrides what it wants to disturb.
class ForwardingTransport : public Transport {
 public:
  explicit ForwardingTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] std::string_view name() const override { return inner_->name(); }
  [[nodiscard]] const Topology& topology() const override { return inner_->topology(); }
  void expect_from(std::span<const int> peers) override { inner_->expect_from(peers); }
  void post(int peer, Bytes message) override { inner_->post(peer, std::move(message)); }
  [[nodiscard]] bool receive(Incoming& incoming) override { return inner_->receive(incoming); }
  [[nodiscard]] bool has_arrivals() const override { return inner_->has_arrivals(); }
  [[nodiscard]] bool flushed() override { return inner_->flushed(); }
  [[nodiscard]] bool moves_only_when_called() const override { return inner_->moves_only_when_called(); }
  [[nodiscard]] Ticket send(int peer, int tag, std::span<const std::byte> data) override {
    return inner_->send(peer, tag, data);
  }
  [[nodiscard]] Ticket recv(int peer, int tag, std::span<std::byte> data) override {
    return inner_->recv(peer, tag, data);
  }
  [[nodiscard]] bool done(Ticket& ticket) override { return inner_->done(ticket); }
  void sleep(Duration at_most) override { inner_->sleep(at_most); }
  [[nodiscard]] bool notices_arrivals() const override { return inner_->notices_arrivals(); }
  void nap(Duration at_most) override { inner_->nap(at_most); }
  void nudge() override { inner_->nudge(); }
  void stay_up() override { inner_->stay_up(); }
  void wake() override { inner_->wake(); }
  [[nodiscard]] HostMemory* host_memory() override { return inner_->host_memory(); }
  [[nodiscard]] Links* links() override { return inner_->links(); }

 private:
  std::unique_ptr<Transport> inner_;
};

}  // namespace hora::testing
