#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>

#include "support/forwarding_transport.h"

namespace hora::testing {

/// Places at which a test may disturb a transport once a session has started; each may throw.
struct Disturbance {
  std::function<void()> on_send;     ///< before bulk data is sent, or a batch goes through shared memory
  std::function<void()> on_receive;  ///< before messages of agreement are looked for
  std::function<void(int peer, Bytes& message)> on_post;  ///< before one is sent; may change it
  std::function<bool()> holds_data;                       ///< whether bulk data has to wait
};

class DisturbedTransport final : public ForwardingTransport {
 public:
  DisturbedTransport(std::unique_ptr<Transport> inner, Disturbance disturbance)
      : ForwardingTransport(std::move(inner)), disturbance_(std::move(disturbance)) {}

  void post(int peer, Bytes message) override {
    if (disturbance_.on_post) disturbance_.on_post(peer, message);
    ForwardingTransport::post(peer, std::move(message));
  }
  [[nodiscard]] bool receive(Incoming& incoming) override {
    has_started_ = true;
    if (disturbance_.on_receive) disturbance_.on_receive();
    return ForwardingTransport::receive(incoming);
  }
  [[nodiscard]] Ticket send(int peer, int tag, std::span<const std::byte> data) override {
    if (has_started_ && disturbance_.on_send) disturbance_.on_send();
    return ForwardingTransport::send(peer, tag, data);
  }
  [[nodiscard]] HostMemory* host_memory() override {
    HostMemory* const memory = ForwardingTransport::host_memory();
    if (memory != nullptr && has_started_ && disturbance_.on_send) disturbance_.on_send();
    return memory;
  }
  [[nodiscard]] bool done(Ticket& ticket) override {
    if (disturbance_.holds_data && disturbance_.holds_data()) return false;
    return ForwardingTransport::done(ticket);
  }

 private:
  Disturbance disturbance_;
  bool has_started_ = false;
};

}  // namespace hora::testing
