#include "base/last_signal.h"

#include <fmt/format.h>

#include <array>
#include <csignal>
#include <cstring>

namespace hora {
namespace {

constexpr std::array kSignals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM};

std::atomic<std::atomic<std::uint64_t>*> noted{nullptr};
std::array<struct sigaction, kSignals.size()> before;

/// Then whoever handled it before gets the signal: an instruction that the processor refused is tried again,
/// any other signal is raised again.
void leave_note(int signal, siginfo_t* info, void*) {
  if (std::atomic<std::uint64_t>* const place = noted) place->store(static_cast<std::uint64_t>(signal));
  for (std::size_t number = 0; number < kSignals.size(); ++number) {
    if (kSignals[number] == signal) sigaction(signal, &before[number], nullptr);
  }
  const bool is_fault = info->si_code > 0 && signal != SIGABRT && signal != SIGTERM;
  if (!is_fault) raise(signal);
}

void install() {
  struct sigaction action{};
  action.sa_sigaction = leave_note;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  for (std::size_t number = 0; number < kSignals.size(); ++number) {
    struct sigaction current{};
    sigaction(kSignals[number], nullptr, &current);
    const bool is_ours = current.sa_sigaction == leave_note;
    const bool is_the_users = kSignals[number] == SIGTERM && current.sa_handler != SIG_DFL;
    if (is_ours || is_the_users) continue;
    before[number] = current;
    sigaction(kSignals[number], &action, nullptr);
  }
}

}  // namespace

void note_last_signal(std::atomic<std::uint64_t>* place) {
  noted = place;
  if (place != nullptr) install();
}

void renew_last_signal() {
  if (noted.load() != nullptr) install();
}

std::string describe_end(int signal) {
  if (signal == 0) return "it ended without notice";
  return fmt::format("it was ended by signal {} ({})", signal, strsignal(signal));
}

}  // namespace hora
