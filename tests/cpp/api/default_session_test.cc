#include "api/default_session.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/error.h"
#include "stand_ins/fake_cuda.h"
#include "stand_ins/fake_nccl.h"
#include "support/calls.h"
#include "support/device.h"

namespace hora::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// The job of one rank that a process without a launcher is.
class DefaultSession : public ::testing::Test {
 protected:
  ~DefaultSession() override {
    shutdown_default_session();
    ::unsetenv("HORA_PIECE_BYTES");
  }
};

TEST_F(DefaultSession, is_missing_before_init_and_after_shutdown) {
  for (int round = 0; round < 2; ++round) {
    EXPECT_FALSE(has_default_session());
    try {
      static_cast<void>(default_session());
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kNotInitialized);
      EXPECT_THAT(error.what(), HasSubstr("init()"));
    }
    init_default_session();
    EXPECT_TRUE(has_default_session());
    shutdown_default_session();
  }
}

TEST_F(DefaultSession, init_and_shutdown_twice_are_once) {
  init_default_session();
  const auto session = default_session();
  init_default_session();
  EXPECT_EQ(default_session(), session);
  shutdown_default_session();
  shutdown_default_session();
  EXPECT_FALSE(has_default_session());
}

TEST_F(DefaultSession, works_again_after_each_of_many_shutdowns) {
  for (int round = 0; round < 10; ++round) {
    init_default_session();
    std::vector<float> values{2};
    EXPECT_EQ(error_of(*default_session(), allreduce("x", ref(values))), "");
    EXPECT_EQ(values[0], 2.0f);
    shutdown_default_session();
  }
}

TEST_F(DefaultSession, a_call_in_flight_at_shutdown_keeps_its_session_alive) {
  init_default_session();
  const auto session = default_session();
  shutdown_default_session();
  std::vector<float> values{2};
  EXPECT_EQ(refusal_of(*session, allreduce("x", ref(values))).kind, ErrorKind::kSessionFailed);
}

TEST_F(DefaultSession, a_bad_setting_is_refused_at_init_and_may_be_corrected) {
  ::setenv("HORA_PIECE_BYTES", "lots", 1);
  try {
    init_default_session();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("HORA_PIECE_BYTES=lots"));
  }
  EXPECT_FALSE(has_default_session());
  ::setenv("HORA_PIECE_BYTES", "1000", 1);
  init_default_session();
  EXPECT_TRUE(has_default_session());
}

/// Runs `body` in a forked child; its result is the child's exit code.
int exit_code_of_child(int (*body)()) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(DefaultSession, does_not_belong_to_a_forked_child) {
  init_default_session();
  EXPECT_EQ(exit_code_of_child([] { return has_default_session() ? 1 : 0; }), 0);
  EXPECT_EQ(exit_code_of_child([] {
              shutdown_default_session();
              return 0;
            }),
            0);
  EXPECT_TRUE(has_default_session());
  std::vector<float> values{2};
  EXPECT_EQ(error_of(*default_session(), allreduce("x", ref(values))), "");
}

TEST_F(DefaultSession, tells_a_forked_child_that_it_was_forked) {
  init_default_session();
  for (const auto body : {+[] { static_cast<void>(default_session()); }, +[] { init_default_session(); }}) {
    static void (*action)();
    action = body;
    EXPECT_EQ(exit_code_of_child([] {
                try {
                  action();
                } catch (const Error& error) {
                  return std::string(error.what()).find("forked") != std::string::npos ? 0 : 2;
                }
                return 1;
              }),
              0);
  }
}

TEST_F(DefaultSession, does_not_start_again_while_nccl_is_at_giving_up_a_communicator) {
  fake_nccl::fake_nccl_reset();
  fake_nccl::Options options;
  options.abort_ms = 4000;
  fake_nccl::fake_nccl_set_options(&options);
  fake_nccl::fake_nccl_hang_at(0, 0);
  ::setenv("HORA_DEVICE_TIMEOUT", "1", 1);
  init_default_session();
  ::unsetenv("HORA_DEVICE_TIMEOUT");
  std::vector<float> values{2};
  {
    const TestDevice device(0);
    const CallOnDevice call(device, allreduce("x", ref(values)), 0, 1);
    const HandlePtr handle = default_session()->submit(call.call());
    while (error_of(*default_session(), barrier()).empty()) continue;
    shutdown_default_session();
    try {
      init_default_session();
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kStartup);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("ncclCommAbort has not come back after 1 s"),
                                      HasSubstr("start a new process")));
    }
    EXPECT_FALSE(has_default_session());
    EXPECT_TRUE(fake_cuda::fake_cuda_drain(20'000));
  }
  const TimePoint deadline = Clock::now() + std::chrono::seconds(20);
  while (!has_default_session() && Clock::now() < deadline) {
    try {
      init_default_session();
    } catch (const Error&) {
      std::this_thread::yield();
    }
  }
  EXPECT_TRUE(has_default_session());
}

}  // namespace
}  // namespace hora::testing
