#include "engine/rest.h"

#include <algorithm>

namespace hora {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLong = 10s;
// After so much time the next call is not likely to come soon.
constexpr Duration kBusy = 20ms;

Rest rest_of_notified(const RestState& state) {
  if (!state.caller_waits && state.since_call < kBusy) return {1ms};
  if (state.moves_only_when_called) return {std::clamp<Duration>(state.quiet, 1ms, kLong), true};
  return {kLong, true};
}

Duration pause_of_polling(const RestState& state) {
  if (state.caller_waits) {
    if (state.quiet < 2ms) return 0ns;
    return std::clamp<Duration>(state.quiet / 16, 20us, 200us);
  }
  if (state.answer_due) return std::clamp<Duration>(state.quiet / 4, 200us, 1ms);
  return std::clamp<Duration>(state.quiet / 16, 200us, 2ms);
}

}  // namespace

Rest choose_rest(const RestState& state) {
  if (state.notices_arrivals) return rest_of_notified(state);
  return {pause_of_polling(state)};
}

}  // namespace hora
