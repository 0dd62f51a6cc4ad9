#include "engine/rest.h"

#include <algorithm>

namespace hora {

using namespace std::chrono_literals;

Duration choose_rest(const RestState& state) {
  if (state.notices_arrivals) return 100ms;
  if (state.caller_waits) {
    if (state.quiet < 2ms) return 0ns;
    return std::clamp<Duration>(state.quiet / 16, 20us, 200us);
  }
  if (state.answer_due) return std::clamp<Duration>(state.quiet / 4, 200us, 1ms);
  return std::clamp<Duration>(state.quiet / 16, 200us, 2ms);
}

}  // namespace hora
