#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace hora {

void name_this_thread(const char* name) {
  pthread_setname_np(pthread_self(), name);
}

void sleep_precisely() {
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
}

// Setting the whole environment costs as much as a small reduction; of it, vector code obeys one register.
#if defined(__x86_64__)
constexpr unsigned kStandardControl = 0x1f80;  // all exceptions masked, round to nearest, denormals kept

StandardFloatMode::StandardFloatMode() : saved_(_mm_getcsr()) {
  if (saved_ != kStandardControl) _mm_setcsr(kStandardControl);
}

StandardFloatMode::~StandardFloatMode() {
  _mm_setcsr(saved_);
}
#else
StandardFloatMode::StandardFloatMode() {
  std::fegetenv(&saved_);
  std::fesetenv(FE_DFL_ENV);
}

StandardFloatMode::~StandardFloatMode() {
  std::fesetenv(&saved_);
}
#endif

int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace hora
