#pragma once

#include <cfenv>

namespace hora {

/// Shown by debuggers and `top -H`; at most 15 characters.
void name_this_thread(const char* name);

/// Sleeps of this thread end within about 1 us of their time instead of the system's 50 us.
void sleep_precisely();

/// While it lives, this thread computes with standard rounding and denormals kept, whatever mode its user has
/// set: results must not depend on which thread does the work.
class StandardFloatMode {
 public:
  StandardFloatMode();
  ~StandardFloatMode();
  StandardFloatMode(const StandardFloatMode&) = delete;
  StandardFloatMode& operator=(const StandardFloatMode&) = delete;

 private:
#if defined(__x86_64__)
  unsigned saved_;
#else
  std::fenv_t saved_;
#endif
};

/// For loops that wait for another core: lets the other thread of this core run, and saves power.
inline void relax_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Number of cores this process may run on.
[[nodiscard]] int usable_cores();

}  // namespace hora
