#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "negotiation/negotiator.h"

namespace hora::simulation {

/// Mistakes that can be planted around the negotiators, so that tests can prove that such are found.
enum class Fault : std::uint8_t {
  kNone,
  kLostMessage,  ///< one message never arrives
  kDoubleCount,  ///< one announcement is counted twice
  kOrderSwap,    ///< one rank runs two batches in the wrong order
  kReusedId,     ///< ids are given again while contributions under their old meaning are under way
  kLateRelay,    ///< a node relays plans only when its own engine has run them
};
inline constexpr std::string_view kFaultNames[] = {"none",       "lost-message", "double-count",
                                                   "order-swap", "reused-id",    "late-relay"};

/// Throws std::invalid_argument for a name that is none.
[[nodiscard]] Fault fault_of(std::string_view name);

/// Does one fault to a job, at a place that depends on the seed.
class Saboteur {
 public:
  Saboteur(Fault fault, std::uint32_t seed, const std::vector<Tree>& trees);

  /// How often a message that is sent now arrives.
  [[nodiscard]] int copies(const Bytes& message);

  /// What a node knew of ids when it sent a message.
  struct Naming {
    std::uint32_t last_id;
  };
  /// With reused ids, all ids share a few short names, which are given again and again. A node takes a short
  /// name for the last id that it knows under it, and so misreads what was sent under an earlier one.
  [[nodiscard]] Bytes misread(Bytes message, Naming sent, const Cache& receiver);

  /// Whether this rank is to swap the two batches that it would run next.
  [[nodiscard]] bool swaps(int rank);
  [[nodiscard]] bool relays_late(int rank) const { return fault_ == Fault::kLateRelay && rank == victim_; }

  /// Says that the fault has had an occasion.
  void note_done() { done_ = true; }
  [[nodiscard]] bool done() const { return done_; }

 private:
  Fault fault_;
  int victim_;
  int messages_left_;  // before the one that is lost or doubled
  bool done_ = false;
};

}  // namespace hora::simulation
