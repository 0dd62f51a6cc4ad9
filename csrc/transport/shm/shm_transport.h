#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "transport/shm/host_memory.h"
#include "transport/shm/message_ring.h"
#include "transport/transport.h"

namespace hora {

/// Adds shared memory to a transport: messages of agreement between ranks of one host go through rings in
/// it, and whoever sends one wakes a receiver that sleeps. All else goes over the transport below, whose
/// links, if it has any, let other hosts end a sleep as well.
///
/// Lock map: nudged_ is an atomic, links guard themselves; hears_others_ and links_ are set by expect_from(),
/// before a second thread is there; nudge() and wake() may be called from any thread, sleep() and nap()
/// beside the one thread that does all else.
class ShmTransport final : public Transport {
 public:
  ShmTransport(std::unique_ptr<Transport> below, std::unique_ptr<HostMemory> memory);

  [[nodiscard]] std::string_view name() const override;
  [[nodiscard]] const Topology& topology() const override { return below_->topology(); }
  void expect_from(std::span<const int> peers) override;
  void post(int peer, Bytes message) override;
  [[nodiscard]] bool receive(Incoming& incoming) override;
  [[nodiscard]] bool has_arrivals() const override;
  [[nodiscard]] bool flushed() override;
  [[nodiscard]] bool moves_only_when_called() const override {
    return !is_one_host_ && below_->moves_only_when_called();
  }
  [[nodiscard]] Ticket send(int peer, int tag, std::span<const std::byte> data) override {
    return below_->send(peer, tag, data);
  }
  [[nodiscard]] Ticket recv(int peer, int tag, std::span<std::byte> data) override {
    return below_->recv(peer, tag, data);
  }
  [[nodiscard]] bool done(Ticket& ticket) override { return below_->done(ticket); }
  void sleep(Duration at_most) override;
  void nap(Duration at_most) override;
  [[nodiscard]] bool notices_arrivals() const override;
  void nudge() override;
  void wake() override;
  void stay_up() override;
  [[nodiscard]] std::optional<Loss> take_loss() override;
  void close_in_child() override;
  [[nodiscard]] HostMemory* host_memory() override { return memory_.get(); }

 private:
  [[nodiscard]] bool take_local(Incoming& incoming);
  bool flush_local();
  void wake_if_asleep(int local_rank) const;

  const std::unique_ptr<Transport> below_;
  const std::unique_ptr<HostMemory> memory_;
  const std::vector<int>& ranks_;  // of this host
  const int rank_;                 // within it
  const bool is_one_host_;
  bool hears_others_;  // messages may come from ranks of other hosts
  Links* links_ = nullptr;
  std::vector<int> local_rank_of_;  // by rank of the job; -1 elsewhere
  std::vector<RingWriter> writers_;
  std::deque<RingReader> readers_;
  std::size_t next_reader_ = 0;
  std::atomic<bool> nudged_{false};
};

/// Puts shared memory above a transport where its host has several ranks and the memory; says in the log why
/// not where it has not.
[[nodiscard]] std::unique_ptr<Transport> with_shared_memory(std::unique_ptr<Transport> below,
                                                            const HostMemoryOptions& options);

}  // namespace hora
