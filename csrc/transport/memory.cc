#include "transport/memory.h"

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace hora {

/// Lock map: each mailbox's members -> its mutex.
class MemoryFabric {
 public:
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable changed;
    bool woken = false;
    std::deque<Incoming> messages;
    std::map<std::pair<int, int>, std::deque<Bytes>> data;  // by (sender, tag)
  };

  explicit MemoryFabric(int size) : mailboxes_(static_cast<std::size_t>(size)) {}
  Mailbox& mailbox(int rank) { return mailboxes_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<Mailbox> mailboxes_;
};

MemoryTransport::MemoryTransport(std::shared_ptr<MemoryFabric> fabric, Topology topology)
    : fabric_(std::move(fabric)), topology_(std::move(topology)) {}

MemoryTransport::~MemoryTransport() = default;

void MemoryTransport::post(int peer, Bytes message) {
  auto& mailbox = fabric_->mailbox(peer);
  {
    const std::lock_guard lock(mailbox.mutex);
    mailbox.messages.push_back({topology_.rank(), std::move(message)});
  }
  mailbox.changed.notify_one();
}

bool MemoryTransport::receive(Incoming& incoming) {
  auto& mailbox = fabric_->mailbox(topology_.rank());
  const std::lock_guard lock(mailbox.mutex);
  if (mailbox.messages.empty()) return false;
  incoming = std::move(mailbox.messages.front());
  mailbox.messages.pop_front();
  return true;
}

Ticket MemoryTransport::send(int peer, int tag, std::span<const std::byte> data) {
  auto& mailbox = fabric_->mailbox(peer);
  const std::lock_guard lock(mailbox.mutex);
  mailbox.data[{topology_.rank(), tag}].emplace_back(data.begin(), data.end());
  return {};
}

Ticket MemoryTransport::recv(int peer, int tag, std::span<std::byte> data) {
  posted_[{peer, tag}].push_back({++last_ticket_, data});
  return {last_ticket_};
}

bool MemoryTransport::done(Ticket& ticket) {
  if (ticket.value == 0) return true;
  if (completed_.erase(ticket.value) != 0) return true;
  match();
  return completed_.erase(ticket.value) != 0;
}

void MemoryTransport::match() {
  auto& mailbox = fabric_->mailbox(topology_.rank());
  const std::lock_guard lock(mailbox.mutex);
  for (auto& [from, posted] : posted_) {
    const auto arrived = mailbox.data.find(from);
    if (arrived == mailbox.data.end()) continue;
    while (!posted.empty() && !arrived->second.empty()) {
      const Bytes& bytes = arrived->second.front();
      assert(bytes.size() == posted.front().data.size());
      std::ranges::copy(bytes, posted.front().data.begin());
      completed_.insert(posted.front().ticket);
      posted.pop_front();
      arrived->second.pop_front();
    }
  }
}

void MemoryTransport::sleep(Duration at_most) {
  auto& mailbox = fabric_->mailbox(topology_.rank());
  std::unique_lock lock(mailbox.mutex);
  mailbox.changed.wait_for(lock, at_most, [&] { return mailbox.woken || !mailbox.messages.empty(); });
  mailbox.woken = false;
}

void MemoryTransport::wake() {
  auto& mailbox = fabric_->mailbox(topology_.rank());
  {
    const std::lock_guard lock(mailbox.mutex);
    mailbox.woken = true;
  }
  mailbox.changed.notify_one();
}

std::shared_ptr<MemoryFabric> make_memory_fabric(int size) {
  return std::make_shared<MemoryFabric>(size);
}

std::unique_ptr<Transport> make_local_transport() {
  return std::make_unique<MemoryTransport>(make_memory_fabric(1), Topology(0, {0}));
}

}  // namespace hora
