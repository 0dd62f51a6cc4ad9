// Every rank runs all tests in the same order; mpirun fails when any rank does.

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

namespace {

/// Says nothing but what went wrong, and on which rank: the ranks write to one terminal.
class FailureLines : public testing::EmptyTestEventListener {
 public:
  explicit FailureLines(std::string rank) : rank_(std::move(rank)) {}

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::cerr << "rank " << rank_ << ": " << (result.file_name() != nullptr ? result.file_name() : "") << ":"
              << result.line_number() << ": " << result.message() << "\n";
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    if (test.result()->Failed())
      std::cerr << "rank " << rank_ << ": FAILED " << test.test_suite_name() << "." << test.name() << "\n";
  }

 private:
  std::string rank_;
};

}  // namespace

int main(int argument_count, char** arguments) {
  testing::InitGoogleTest(&argument_count, arguments);
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank != nullptr && std::string(rank) != "0") {
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailureLines(rank));
  }
  return RUN_ALL_TESTS();
}
