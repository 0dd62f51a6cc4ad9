#include "completion_thread.h"

#include <thread>

#include "base/thread.h"
#include "running_call.h"

namespace hora::tensorflow {
namespace {

void end_calls(const std::shared_ptr<Completions>& completions) {
  name_this_thread("hora-tensorflow");
  for (;;) {
    for (void* const ticket : completions->take()) {
      const std::unique_ptr<RunningCall> call(static_cast<RunningCall*>(ticket));
      call->end();
    }
  }
}

}  // namespace

const std::shared_ptr<Completions>& completions() {
  // Never destroyed, like the thread.
  static const auto* const shared = [] {
    auto* const made = new std::shared_ptr<Completions>(std::make_shared<Completions>());
    std::thread(end_calls, *made).detach();
    return made;
  }();
  return *shared;
}

}  // namespace hora::tensorflow
