#pragma once

#include <span>
#include <vector>

#include "base/clock.h"
#include "transport/transport.h"

namespace hora {

/// Ranks that have ended, or to which the way is cut, as the transport finds out.
class LossWatch {
 public:
  explicit LossWatch(Transport& transport) : transport_(transport) {}

  /// Takes note of what is new. May be called as often as one likes.
  void look(TimePoint now);
  [[nodiscard]] bool has_any() const { return !found_.empty(); }
  /// The first lost rank whose last messages must have come by now, or null. A rank that knows why it ends
  /// says so before.
  [[nodiscard]] const Loss* first(TimePoint now) const;
  /// The same among some ranks only.
  [[nodiscard]] const Loss* first_of(std::span<const int> ranks, TimePoint now) const;

 private:
  struct Found {
    Loss loss;
    TimePoint when;
  };
  Transport& transport_;
  std::vector<Found> found_;
  TimePoint last_look_;
};

}  // namespace hora
