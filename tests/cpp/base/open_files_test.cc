#include "base/open_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cerrno>

#include "base/descriptor.h"

namespace hora {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

TEST(OpenFiles, are_enough_for_a_few_more) {
  EXPECT_EQ(shortage_of_files(1), "");
}

TEST(OpenFiles, are_counted_where_more_are_needed_than_may_be) {
  const Descriptor lowest(open("/dev/null", O_RDONLY | O_CLOEXEC));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{static_cast<rlim_t>(lowest.get() + 20), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const std::string shortage = shortage_of_files(21);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_THAT(shortage, MatchesRegex("21 file descriptors are needed, and [0-9]+ of [0-9]+ file descriptors "
                                     "are in use \\(ulimit -n\\)"));
  EXPECT_THAT(shortage, HasSubstr(" of " + std::to_string(few.rlim_cur) + " file"));
}

TEST(DescribeError, has_numbers_where_too_many_files_are_open) {
  EXPECT_EQ(describe_error(ENOENT), "No such file or directory");
  EXPECT_THAT(describe_error(EMFILE), HasSubstr("Too many open files: "));
  EXPECT_THAT(describe_error(EMFILE), HasSubstr("file descriptors are in use (ulimit -n)"));
}

}  // namespace
}  // namespace hora
