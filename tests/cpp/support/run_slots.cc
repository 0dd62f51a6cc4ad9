#include "support/run_slots.h"

#include <memory>
#include <numeric>
#include <thread>

namespace hora::testing {

SlotRank::SlotRank(Transport& transport)
    : transport_(transport),
      local_ranks_(static_cast<std::size_t>(transport.topology().size())),
      rank_(transport.topology().rank()),
      size_(transport.topology().size()),
      pump_([&transport] {
        Incoming incoming;
        static_cast<void>(transport.receive(incoming));  // throws when the test is stopped
        std::this_thread::yield();
      }) {
  std::iota(local_ranks_.begin(), local_ranks_.end(), 0);
}

void SlotRank::run(std::uint64_t batch_number, const std::function<void(Slots&)>& body) {
  run(batch_number, local_ranks_, body);
}

void SlotRank::run(std::uint64_t batch_number, const std::vector<int>& members,
                   const std::function<void(Slots&)>& body) {
  Slots slots(*transport_.host_memory(), ledger_, local_ranks_, std::make_shared<std::vector<int>>(members),
              batch_number, {0, pump_, pump_});
  body(slots);
}

void run_slots(int size, std::size_t slot_bytes, const std::function<void(SlotRank&)>& body) {
  run_transports(size,
                 [&](Transport& transport) {
                   SlotRank rank(transport);
                   body(rank);
                 },
                 {.shared_memory = true, .slot_bytes = slot_bytes});
}

}  // namespace hora::testing
