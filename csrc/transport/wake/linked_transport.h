#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "base/descriptor.h"
#include "transport/transport.h"
#include "transport/wake/connect.h"
#include "transport/wake/links.h"

namespace hora {

/// Adds connections to a transport that cannot wake a sleeper: a message ends a sleep of its receiver.
///
/// Lock map: nudged_ and asleep_ are atomics; links_ guards itself and is made by expect_from(), before a
/// second thread is there; nudge() and wake() may be called from any thread, sleep() and nap() beside the one
/// thread that does all else.
class LinkedTransport final : public Transport {
 public:
  LinkedTransport(std::unique_ptr<Transport> below, LinkOptions options);

  [[nodiscard]] std::string_view name() const override { return below_->name(); }
  [[nodiscard]] const Topology& topology() const override { return below_->topology(); }
  void expect_from(std::span<const int> peers) override;
  void post(int peer, Bytes message) override;
  [[nodiscard]] bool receive(Incoming& incoming) override;
  [[nodiscard]] bool flushed() override { return below_->flushed(); }
  [[nodiscard]] bool moves_only_when_called() const override { return below_->moves_only_when_called(); }
  [[nodiscard]] Ticket send(int peer, int tag, std::span<const std::byte> data) override {
    return below_->send(peer, tag, data);
  }
  [[nodiscard]] Ticket recv(int peer, int tag, std::span<std::byte> data) override {
    return below_->recv(peer, tag, data);
  }
  [[nodiscard]] bool done(Ticket& ticket) override { return below_->done(ticket); }
  void sleep(Duration at_most) override;
  void nap(Duration at_most) override;
  [[nodiscard]] bool notices_arrivals() const override { return links_ && links_->are_whole(); }
  void nudge() override;
  void wake() override;
  void stay_up() override;
  [[nodiscard]] std::optional<Loss> take_loss() override;
  void close_in_child() override;
  [[nodiscard]] Links* links() override { return links_ ? &*links_ : nullptr; }

 private:
  const std::unique_ptr<Transport> below_;
  const LinkOptions options_;
  Descriptor bell_;
  std::optional<Links> links_;
  unsigned looks_in_vain_ = 0;
  std::atomic<bool> nudged_{false};
  std::atomic<bool> asleep_{false};
};

/// Puts it above a transport with several ranks.
[[nodiscard]] std::unique_ptr<Transport> with_links(std::unique_ptr<Transport> below,
                                                    LinkOptions options = {});

}  // namespace hora
