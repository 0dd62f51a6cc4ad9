#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace hora {

/// While one of these is set, a signal that ends this process leaves its number in `place` before it does;
/// what handled it before goes on handling it. That is for signals of faults and, where nothing else handles
/// it, SIGTERM. Null: no longer. Signal handlers are the process's, and so is this.
void note_last_signal(std::atomic<std::uint64_t>* place);

/// To be called after a program has set the usual handling of SIGTERM again.
void renew_last_signal();

/// How a process ended that left this number; 0 is none.
[[nodiscard]] std::string describe_end(int signal);

}  // namespace hora
