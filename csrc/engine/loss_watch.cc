#include "engine/loss_watch.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace hora {
namespace {

// How long the last messages of a rank that has ended may be under way.
constexpr auto kLastMessages = std::chrono::milliseconds(200);
// A look at the transport is a call of the system.
constexpr auto kPause = std::chrono::milliseconds(5);

}  // namespace

void LossWatch::look(TimePoint now) {
  if (now - last_look_ < kPause) return;
  last_look_ = now;
  while (std::optional<Loss> loss = transport_.take_loss()) found_.push_back({std::move(*loss), now});
}

const Loss* LossWatch::first(TimePoint now) const {
  return !found_.empty() && now - found_.front().when >= kLastMessages ? &found_.front().loss : nullptr;
}

const Loss* LossWatch::first_of(std::span<const int> ranks, TimePoint now) const {
  const auto is_one = [&](const Found& found) {
    return now - found.when >= kLastMessages && std::ranges::count(ranks, found.loss.rank) > 0;
  };
  const auto found = std::ranges::find_if(found_, is_one);
  return found == found_.end() ? nullptr : &found->loss;
}

}  // namespace hora
