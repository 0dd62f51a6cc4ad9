#pragma once

#include <deque>
#include <optional>
#include <string>

#include "core/batch.h"
#include "engine/counters.h"
#include "negotiation/negotiator.h"
#include "transport/transport.h"

namespace hora {

/// Carries the negotiator's messages over the transport, and collects what has been agreed.
class Exchange {
 public:
  Exchange(Transport& transport, Negotiator negotiator, Counters& counters);

  void submit(const Request& request);
  void wait_for(const Key& key) { negotiator_.on_wait(key); }
  void report(const Through& through) { negotiator_.on_through(through); }
  void leave(const std::string& reason) { negotiator_.on_leave(reason); }
  void fail(const Failure& failure);
  void say_goodbye();
  [[nodiscard]] bool neighbours_gone() const { return negotiator_.neighbours_gone(); }

  /// Takes what has arrived and sends what is to be sent; never blocks. The root plans what is ready if
  /// `engine_is_free` or a rank leaves; its device is not through with `unfinished` batches. Says whether
  /// anything happened.
  bool step(bool engine_is_free, std::size_t unfinished = 0);
  /// Root: something is ready that waits for the device to get through with a batch.
  [[nodiscard]] bool holds_back() const { return negotiator_.holds_back(); }

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
  void send_outputs();

  Transport& transport_;
  Negotiator negotiator_;
  Counters& counters_;
};

}  // namespace hora
