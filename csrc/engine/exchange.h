#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/faults.h"
#include "core/batch.h"
#include "engine/counters.h"
#include "negotiation/negotiator.h"
#include "transport/transport.h"

namespace hora {

/// Carries the negotiator's messages over the transport, and collects what has been agreed. Each message ends
/// with its number among those of its sender to its receiver, so that none is missing without notice.
class Exchange {
 public:
  Exchange(Transport& transport, Negotiator negotiator, Counters& counters, Faults& faults);

  void submit(const Request& request);
  void wait_for(const Key& key) { negotiator_.on_wait(key); }
  void report(const Through& through) { negotiator_.on_through(through); }
  void leave(const std::string& reason) { negotiator_.on_leave(reason); }
  void fail(const Failure& failure);
  void say_goodbye();
  [[nodiscard]] bool all_have_departed() const { return negotiator_.all_have_departed(); }
  [[nodiscard]] std::span<const int> neighbours() const { return negotiator_.neighbours(); }

  /// Takes what has arrived and sends what is to be sent; never blocks. The root plans what is ready if
  /// `engine_is_free` or a rank leaves; its device is not through with `unfinished` batches. Says whether
  /// anything happened.
  bool step(bool engine_is_free, std::size_t unfinished = 0);
  /// Root: something is ready that waits for the device to get through with a batch.
  [[nodiscard]] bool holds_back() const { return negotiator_.holds_back(); }

  [[nodiscard]] bool has_errors() const { return negotiator_.has_errors(); }

  void pass_time(TimePoint now, bool waits);
  [[nodiscard]] Duration tick() const { return negotiator_.tick(); }
  /// Whether calls are known here that are not agreed.
  [[nodiscard]] bool is_waiting() const { return negotiator_.is_waiting(); }
  [[nodiscard]] bool awaits_callers() const { return negotiator_.awaits_callers(); }
  [[nodiscard]] bool is_stalled(const Key& key) const { return negotiator_.is_stalled(key); }
  void ask(const Question& question);
  void answer(const Answer& answer);
  void tell_of(const LastingBatch& batch);

  /// Agreed and not yet run, in order.
  std::deque<Batch> agreed;
  std::optional<Departure> departure;  ///< comes after all of `agreed`
  std::optional<Failure> failure;
  Negotiator::Stalls stalls;  ///< that nobody has looked at

 private:
  /// Messages from and to another rank, modulo 256.
  struct Numbers {
    std::uint8_t received = 0;
    std::uint8_t sent = 0;
  };
  [[nodiscard]] std::span<const std::byte> without_number(const Incoming& incoming);
  void send(Negotiator::Outgoing outgoing);
  void send_outputs();

  Transport& transport_;
  Negotiator negotiator_;
  Counters& counters_;
  Faults& faults_;
  std::vector<Numbers> numbers_;  // by rank
};

}  // namespace hora
