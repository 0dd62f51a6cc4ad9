#pragma once

namespace hora {

/// Shown by debuggers and `top -H`; at most 15 characters.
void name_this_thread(const char* name);

/// Sleeps of this thread end within about 1 us of their time instead of the system's 50 us.
void sleep_precisely();

/// Standard rounding, denormals kept, whatever mode the creating thread had set: results must not depend on
/// it.
void use_standard_float_mode();

/// Number of cores this process may run on.
[[nodiscard]] int usable_cores();

}  // namespace hora
