#include "base/socket.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "base/error.h"

namespace hora {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr uid_t kNobody = 65534;

/// What a child prints that runs as another user.
template <typename Body>
std::string as_another_user(Body body) {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  const pid_t process = fork();
  if (process == 0) {
    const std::string text = setuid(kNobody) == 0 ? body() : "it cannot become another user";
    _exit(write(ends[1], text.data(), text.size()) < 0 ? 1 : 0);
  }
  close(ends[1]);
  std::array<char, 500> text{};
  const Descriptor reading(ends[0]);
  EXPECT_GE(read(reading.get(), text.data(), text.size() - 1), 0);
  waitpid(process, nullptr, 0);
  return text.data();
}

class AnotherUser : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  }
};

TEST_F(AnotherUser, is_not_let_in) {
  const LocalListener listener;
  const std::string heard = as_another_user([&]() -> std::string {
    try {
      const LocalSocket socket = LocalSocket::connect(listener.name(), Clock::now() + 5s);
      return "connected";
    } catch (const Error& error) {
      return error.what();
    }
  });
  // A connection waits from when it is asked for; its own side refuses as well.
  EXPECT_THAT(heard, HasSubstr("of another user"));
  EXPECT_THROW(static_cast<void>(listener.accept(Clock::now() + 100ms)), Error);
}

TEST_F(AnotherUser, is_not_connected_to) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t process = fork();
  if (process == 0) {
    if (setuid(kNobody) != 0) _exit(1);
    const LocalListener listener;
    if (write(ends[1], listener.name().data(), listener.name().size()) < 0) _exit(1);
    sleep(20);
    _exit(0);
  }
  std::array<char, 100> name{};
  ASSERT_GT(read(ends[0], name.data(), name.size() - 1), 0);
  try {
    static_cast<void>(LocalSocket::connect(name.data(), Clock::now() + 5s));
    ADD_FAILURE() << "it is connected to";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a process of another user answered");
  }
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace hora
