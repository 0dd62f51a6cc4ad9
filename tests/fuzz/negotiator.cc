// A node of the tree to which calls and messages come in any order. The first byte chooses the rank; then
// come steps, each a byte and what belongs to it.

#include "negotiation/negotiator.h"

#include <array>
#include <utility>

#include "fuzz.h"
#include "samples.h"

namespace hora::fuzz {
namespace {

std::uint32_t read_tensor(ByteReader& in) {
  return 1 + in.up_to(kSampleTensors);  // one that has no id yet is among them
}

class Node {
 public:
  explicit Node(int rank) : negotiator_(make_negotiator(rank)) {}

  void go(Step step, ByteReader& in) {
    switch (step) {
      case Step::kSubmit:
        submit(read_tensor(in));
        break;
      case Step::kMessage: {
        const int peer = in.up_to(5);
        const std::string message = in.text();
        negotiator_.on_message(peer, std::as_bytes(std::span(message)));
        break;
      }
      case Step::kCut:
        if (negotiator_.can_cut()) negotiator_.cut();
        break;
      case Step::kJoin:
        if (!std::exchange(has_joined_, true)) negotiator_.on_join();
        break;
      case Step::kLeave:
        negotiator_.on_leave("it was shut down");
        break;
      case Step::kWait:
        negotiator_.on_wait(sample_request(read_tensor(in)).key);
        break;
    }
    collect();
  }

 private:
  /// A rank calls a name again only when its batch has come out.
  void submit(std::uint32_t tensor) {
    bool& is_pending = is_pending_[tensor - 1];
    if (is_pending || has_joined_) return;
    is_pending = true;
    negotiator_.on_submit(sample_request(tensor));
  }

  void collect() {
    for (const Plan& plan : negotiator_.take_outputs().plans) {
      for (const Batch& batch : plan.batches) {
        if (batch.signature().op == OpKind::kJoin) has_joined_ = false;
        for (const BatchEntry& entry : batch.entries) complete(entry.key);
      }
    }
  }

  void complete(const Key& key) {
    for (std::uint32_t tensor = 1; tensor <= is_pending_.size(); ++tensor) {
      if (key == sample_request(tensor).key) is_pending_[tensor - 1] = false;
    }
  }

  Negotiator negotiator_;
  std::array<bool, kSampleTensors + 1> is_pending_{};
  bool has_joined_ = false;
};

}  // namespace

void take(std::span<const std::byte> input) {
  ByteReader in(input);
  Node node(in.up_to(4));
  while (!in.empty()) node.go(in.one_of<Step>(kSteps), in);
}

}  // namespace hora::fuzz
