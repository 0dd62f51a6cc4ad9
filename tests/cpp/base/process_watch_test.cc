#include "base/process_watch.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/event.h"
#include "base/last_signal.h"
#include "base/socket.h"

namespace hora {
namespace {

using namespace std::chrono_literals;

/// Hands its parent what lets it be watched.
struct Child {
  pid_t process;
  Descriptor watchable;
};

template <typename Body>
Child start_child(Body body, void (*before)() = [] {}) {
  const LocalListener listener;
  const TimePoint deadline = Clock::now() + 10s;
  const pid_t process = fork();
  if (process == 0) {
    const LocalSocket socket = LocalSocket::connect(listener.name(), deadline);
    before();
    const Watchable self = watchable_self();
    const int number = self.process.get();
    socket.send_descriptors({&number, 1}, deadline);
    body();
    _exit(0);
  }
  const LocalSocket socket = listener.accept(deadline);
  return {process, std::move(socket.receive_descriptors(1, deadline).front())};
}

TEST(ProcessWatch, tells_once_of_a_process_that_has_ended_even_as_a_zombie) {
  ProcessWatch watch;
  Child child = start_child([] { sleep(10); });
  watch.add(7, std::move(child.watchable));
  EXPECT_EQ(watch.take_ended(), std::nullopt);
  kill(child.process, SIGKILL);
  const Descriptor bell = make_event();
  const TimePoint start = Clock::now();
  await_event(bell.get(), 10s, watch.descriptor());
  EXPECT_LT(Clock::now() - start, 5s);
  EXPECT_EQ(watch.take_ended(), 7);
  EXPECT_EQ(watch.take_ended(), std::nullopt);
  waitpid(child.process, nullptr, 0);
}

TEST(ProcessWatch, a_child_of_the_process_does_not_hide_its_end) {
  ProcessWatch watch;
  Child child = start_child([] {
    if (fork() == 0) sleep(2);
  });
  watch.add(1, std::move(child.watchable));
  waitpid(child.process, nullptr, 0);
  EXPECT_EQ(watch.take_ended(), 1);
}

TEST(ProcessWatch, this_process_goes_on) {
  ProcessWatch watch;
  watch.add(0, watchable_self().process);
  EXPECT_EQ(watch.take_ended(), std::nullopt);
}

/// As on a system from before Linux 5.3. Returns the error of the system where it lets no process do so.
int forbid_pidfd_open() {
  std::array<sock_filter, 4> steps{{{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                                    {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_pidfd_open},
                                    {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS},
                                    {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}}};
  const sock_fprog program{steps.size(), steps.data()};
  const bool filters = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  return filters ? 0 : errno;
}

/// The same, tried in a child: a filter stays for ever.
int error_of_forbidding() {
  const pid_t process = fork();
  if (process == 0) _exit(forbid_pidfd_open());
  int status = 0;
  waitpid(process, &status, 0);
  return WEXITSTATUS(status);
}

TEST(ProcessWatch, where_there_is_no_pidfd_a_pipe_tells) {
  if (const int error = error_of_forbidding(); error != 0)
    GTEST_SKIP() << "system calls cannot be filtered here: " << std::strerror(error);
  ProcessWatch watch;
  Child child = start_child([] { sleep(10); },
                            [] {
                              if (forbid_pidfd_open() != 0 || !watchable_self().kept) _exit(9);
                            });
  watch.add(3, std::move(child.watchable));
  EXPECT_EQ(watch.take_ended(), std::nullopt);
  kill(child.process, SIGKILL);
  waitpid(child.process, nullptr, 0);
  EXPECT_EQ(watch.take_ended(), 3);
  EXPECT_EQ(watch.take_ended(), std::nullopt);
}

/// What a child leaves that dies of a signal.
std::uint64_t last_signal_of(void (*end)()) {
  auto* const shared = static_cast<std::atomic<std::uint64_t>*>(
      mmap(nullptr, sizeof(std::atomic<std::uint64_t>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
           -1, 0));
  *shared = 0;
  const pid_t process = fork();
  if (process == 0) {
    std::signal(SIGBUS, SIG_DFL);  // AddressSanitizer would exit
    note_last_signal(shared);
    end();
    _exit(0);
  }
  int status = 0;
  waitpid(process, &status, 0);
  const std::uint64_t left = *shared;
  munmap(shared, sizeof(*shared));
  EXPECT_EQ(left, WIFSIGNALED(status) ? static_cast<std::uint64_t>(WTERMSIG(status)) : 0u);
  return left;
}

TEST(LastSignal, is_left_and_the_process_dies_of_it) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer handles signals itself";
#endif
  EXPECT_EQ(last_signal_of([] { kill(getpid(), SIGTERM); }), static_cast<std::uint64_t>(SIGTERM));
  EXPECT_EQ(last_signal_of([] { raise(SIGBUS); }), static_cast<std::uint64_t>(SIGBUS));
  EXPECT_EQ(last_signal_of([] {}), 0u);
}

TEST(LastSignal, leaves_a_handler_of_the_program_in_its_place) {
  EXPECT_EQ(last_signal_of([] {
              std::signal(SIGTERM, [](int) { _exit(0); });
              kill(getpid(), SIGTERM);
            }),
            0u);
}

TEST(LastSignal, has_a_name) {
  EXPECT_EQ(describe_end(SIGSEGV), "it was ended by signal 11 (Segmentation fault)");
  EXPECT_EQ(describe_end(0), "it ended without notice");
}

}  // namespace
}  // namespace hora
