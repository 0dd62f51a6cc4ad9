#pragma once

#include <functional>
#include <vector>

#include "support/run_ranks.h"
#include "transport/shm/slots.h"

namespace hora::testing {

/// One rank that shares memory with the others, all of them threads.
class SlotRank {
 public:
  explicit SlotRank(Transport& transport);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  [[nodiscard]] const HostMemory& memory() const { return *transport_.host_memory(); }

  /// Takes part in a batch of all ranks, or of some, which all call this in the order of the numbers.
  void run(std::uint64_t batch_number, const std::function<void(Slots&)>& body);
  void run(std::uint64_t batch_number, const std::vector<int>& members,
           const std::function<void(Slots&)>& body);

 private:
  Transport& transport_;
  SlotLedger ledger_;
  std::vector<int> local_ranks_;
  const int rank_;
  const int size_;
  std::function<void()> pump_;
};

/// Runs `body` on every rank; slots have `slot_bytes`.
void run_slots(int size, std::size_t slot_bytes, const std::function<void(SlotRank&)>& body);

}  // namespace hora::testing
