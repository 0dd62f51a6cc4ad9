#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "core/topology.h"

namespace hora {

class HostMemory;
class Links;

/// A non-blocking send or receive under way.
struct Ticket {
  std::uintptr_t value = 0;  ///< meaning private to the transport; 0 is complete
};

struct Incoming {
  int peer = 0;
  Bytes message;
};

/// A rank that has ended, or to which the way is cut.
struct Loss {
  int rank = 0;
  std::string how;  ///< "it was ended by signal 11 (Segmentation fault)"
};

/// Moves bytes between the ranks of one job; knows nothing of tensors.
///
/// Two kinds of traffic: messages of agreement (`post`, `receive`), queued by the sender so that sending
/// never blocks, delivered in order per pair of ranks; and bulk data (`send`, `recv`) between memory of the
/// caller, matched in order per pair of ranks and tag.
///
/// One thread at a time uses a transport; only `wake`, `nudge` and `notices_arrivals` may be called from any
/// thread.
class Transport {
 public:
  virtual ~Transport() = default;

  /// The tag of what ranks tell each other while a session starts; collectives use lower ones.
  static constexpr int kStartTag = 32767;

  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual const Topology& topology() const = 0;

  /// To be called once by all ranks before the first message: from now on messages come only from `peers`,
  /// and each of those lists this rank as well.
  virtual void expect_from(std::span<const int> /*peers*/) {}

  virtual void post(int peer, Bytes message) = 0;
  /// Takes the next message from anyone, if one has arrived. Also moves queued messages on.
  [[nodiscard]] virtual bool receive(Incoming& incoming) = 0;
  /// False only when `receive` would find nothing and move nothing on; cheaper than to call it.
  [[nodiscard]] virtual bool has_arrivals() const { return true; }
  /// Whether everything posted has left this process.
  [[nodiscard]] virtual bool flushed() = 0;
  /// Whether even what is said to have left may still wait in here for a later call.
  [[nodiscard]] virtual bool moves_only_when_called() const { return false; }

  /// The memory must stay valid until `done` has said so. Sizes of a matching pair are equal.
  [[nodiscard]] virtual Ticket send(int peer, int tag, std::span<const std::byte> data) = 0;
  [[nodiscard]] virtual Ticket recv(int peer, int tag, std::span<std::byte> data) = 0;
  /// Makes progress; after it has returned true, the ticket is used up.
  [[nodiscard]] virtual bool done(Ticket& ticket) = 0;

  /// Sleeps until `wake` or `nudge` is called, the time is over, `take_loss` has something or, if
  /// `notices_arrivals`, a message has arrived. A call that comes just before counts.
  virtual void sleep(Duration at_most) = 0;
  [[nodiscard]] virtual bool notices_arrivals() const = 0;
  /// Sleeps until `wake` is called or the time is over: for one who will look again soon anyway, so that
  /// nobody need take the trouble to wake it.
  virtual void nap(Duration at_most) = 0;
  virtual void nudge() = 0;
  virtual void wake() = 0;
  /// The caller looks after arrivals now: a thread that sleeps for them naps on instead.
  virtual void stay_up() {}

  /// The next rank that is lost, if this one can know, each once. It may have left in order, and its last
  /// messages may still be under way.
  [[nodiscard]] virtual std::optional<Loss> take_loss() { return std::nullopt; }
  /// In a forked child: closes what belongs to the parent, and does nothing else.
  virtual void close_in_child() {}

  /// What the ranks of this host share, or null.
  [[nodiscard]] virtual HostMemory* host_memory() { return nullptr; }
  /// What lets ranks of other hosts end a sleep, or null.
  [[nodiscard]] virtual Links* links() { return nullptr; }
};

}  // namespace hora
