#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

namespace hora {

void name_this_thread(const char* name) {
  pthread_setname_np(pthread_self(), name);
}

void sleep_precisely() {
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
}

StandardFloatMode::StandardFloatMode() {
  std::fegetenv(&saved_);
  std::fesetenv(FE_DFL_ENV);
}

StandardFloatMode::~StandardFloatMode() {
  std::fesetenv(&saved_);
}

int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace hora
