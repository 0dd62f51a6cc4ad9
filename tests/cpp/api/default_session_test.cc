#include "api/default_session.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "support/calls.h"

namespace hora::testing {
namespace {

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

}  // namespace
}  // namespace hora::testing
