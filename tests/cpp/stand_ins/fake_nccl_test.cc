// Communicators, groups and memory of the fake NCCL.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <latch>
#include <string>
#include <thread>

#include "stand_ins/nccl_ranks.h"

namespace hora::fake_nccl::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Sets a variable of the environment for as long as it lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { unsetenv(name_); }

 private:
  const char* name_;
};

void allreduce_one(const Rank& rank, const DeviceVector<float>& data) {
  ncclAllReduce(data.data(), data.data(), data.count(), DataType::kFloat32, RedOp::kSum, rank.comm,
                rank.stream());
}

/// Meetings that this process keeps open for other ranks.
int files_left() {
  int found = 0;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the one by which they are read
    found += read_symlink(file.path(), gone).string().starts_with("/memfd:hora-fake-nccl-") ? 1 : 0;
  }
  return found;
}

/// Files of this stand-in that outlive their process.
int names_in_shared_memory() {
  int found = 0;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
    found += file.path().filename().string().find("fake-nccl") != std::string::npos ? 1 : 0;
  return found;
}

TEST_F(FakeNccl, version_is_what_the_environment_says) {
  int version = 0;
  require(ncclGetVersion(&version));
  EXPECT_EQ(version, 22809);
  const Environment older("HORA_FAKE_NCCL_VERSION", "21805");
  require(ncclGetVersion(&version));
  EXPECT_EQ(version, 21805);
}

TEST_F(FakeNccl, the_table_of_libhora_finds_the_same_functions) {
  int version = 0;
  require(kSymbols.version(&version));
  EXPECT_EQ(version, 22809);
}

TEST_F(FakeNccl, a_non_blocking_communicator_is_in_progress_until_all_ranks_have_called) {
  const nccl::UniqueId id = new_id();
  const Gpu gpu(0);
  nccl::Config config = config_of(false);
  nccl::Comm comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), Result::kInProgress);
  EXPECT_EQ(settled(comm, milliseconds(5)), Result::kInProgress);
  std::thread peer([&id] {
    const Gpu other(1);
    ncclCommDestroy(joined(id, 2, 1, false));
  });
  EXPECT_EQ(settled(comm), Result::kSuccess);
  peer.join();
  EXPECT_EQ(ncclCommDestroy(comm), Result::kSuccess);
  EXPECT_EQ(fake_nccl_counts().communicators_made, 2u);
  EXPECT_EQ(fake_nccl_counts().communicators_destroyed, 2u);
}

TEST_F(FakeNccl, the_environment_decides_whether_calls_block) {
  const Environment blocking("NCCL_COMM_BLOCKING", "1");
  const Gpu gpu(0);
  nccl::Config config = config_of(false);
  nccl::Comm comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, new_id(), 0, &config), Result::kSuccess);
  ncclCommDestroy(comm);
}

TEST_F(FakeNccl, bad_configurations_and_ids_are_refused) {
  const Gpu gpu(0);
  nccl::Comm comm = nullptr;
  nccl::Config config;
  config.magic = 1;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, new_id(), 0, &config), Result::kInvalidArgument);
  config = {};
  config.min_ctas = 2;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, new_id(), 0, &config), Result::kInvalidArgument);
  config = {};
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, {}, 0, &config), Result::kInvalidArgument);
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, new_id(), 1, &config), Result::kInvalidArgument);
}

TEST_F(FakeNccl, a_blocking_initialization_without_its_peers_ends) {
  Options options;
  options.init_timeout_ms = 5;
  fake_nccl_set_options(&options);
  const int before = files_left();
  const Gpu gpu(0);
  nccl::Config config;
  nccl::Comm comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, new_id(), 0, &config), Result::kSystemError);
  EXPECT_EQ(comm, nullptr);
  EXPECT_EQ(files_left(), before);
}

TEST_F(FakeNccl, two_ranks_on_one_gpu_are_refused) {
  const nccl::UniqueId id = new_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&id, rank] {
      const Gpu gpu(3);
      nccl::Config config = config_of(true);
      nccl::Comm comm = nullptr;
      EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, rank, &config), Result::kInvalidUsage);
      EXPECT_EQ(comm, nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(ncclGetLastError(nullptr), ::testing::HasSubstr("Duplicate GPU detected : rank 0 and rank 1"));
}

TEST_F(FakeNccl, initialization_fails_when_told_to) {
  const Gpu gpu(0);
  nccl::Config config;
  nccl::Comm comm = nullptr;
  fake_nccl_fail_inits(2);
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, new_id(), 0, &config), Result::kUnhandledCudaError);
  config.blocking = 0;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, new_id(), 0, &config), Result::kInProgress);
  EXPECT_EQ(settled(comm), Result::kUnhandledCudaError);
  EXPECT_EQ(ncclCommAbort(comm), Result::kSuccess);
}

TEST_F(FakeNccl, polls_say_in_progress_as_often_as_told) {
  Options options;
  options.polls_in_progress = 3;
  options.max_delay_us = 0;
  fake_nccl_set_options(&options);
  run_ranks(2, false, [](Rank& rank) {
    const DeviceVector<float> data(1);
    allreduce_one(rank, data);
    rank.gpu.finish();
    for (int poll = 0; poll < 3; ++poll) {
      Result result = Result::kSuccess;
      ncclCommGetAsyncError(rank.comm, &result);
      EXPECT_EQ(result, Result::kInProgress);
    }
    EXPECT_EQ(settled(rank.comm), Result::kSuccess);
  });
}

TEST_F(FakeNccl, a_non_blocking_communicator_in_progress_takes_no_call) {
  Options options;
  options.polls_in_progress = 2;
  fake_nccl_set_options(&options);
  run_ranks(2, false, [](Rank& rank) {
    const DeviceVector<float> data(1);
    const auto call = [&] {
      return ncclAllReduce(data.data(), data.data(), 1, DataType::kFloat32, RedOp::kSum, rank.comm,
                           rank.stream());
    };
    EXPECT_EQ(call(), Result::kInProgress);
    EXPECT_EQ(call(), Result::kInvalidArgument);
    ncclGroupStart();
    EXPECT_EQ(call(), Result::kInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), Result::kInvalidArgument);
    rank.finish();
  });
  EXPECT_EQ(fake_nccl_counts().uses_in_progress, 4u);
}

TEST_F(FakeNccl, a_launch_of_a_non_blocking_communicator_comes_later) {
  Options options;
  options.max_delay_us = 0;
  fake_nccl_set_options(&options);
  run_ranks(1, false, [](Rank& rank) {
    Options slow;
    slow.seed = 5;
    slow.max_delay_us = 50'000;
    fake_nccl_set_options(&slow);
    const DeviceVector<float> from(std::vector<float>{7});
    const DeviceVector<float> to(1);
    ncclAllReduce(from.data(), to.data(), 1, DataType::kFloat32, RedOp::kSum, rank.comm, rank.stream());
    rank.gpu.finish();  // an event recorded too early is complete before the collective begins
    Result state = Result::kSuccess;
    ncclCommGetAsyncError(rank.comm, &state);
    EXPECT_EQ(state, Result::kInProgress);
    rank.finish();
    EXPECT_EQ(to.values().front(), 7);
  });
}

TEST_F(FakeNccl, finalizing_takes_until_all_ranks_do) {
  std::latch refused(1);
  run_ranks(2, false, [&](Rank& rank) {
    const DeviceVector<float> data(1);
    if (rank.rank == 1) refused.wait();
    EXPECT_EQ(ncclCommFinalize(rank.comm), Result::kInProgress);
    if (rank.rank == 0) {
      EXPECT_EQ(settled(rank.comm, milliseconds(5)), Result::kInProgress);
      EXPECT_EQ(ncclAllReduce(data.data(), data.data(), 1, DataType::kFloat32, RedOp::kSum, rank.comm,
                              rank.stream()),
                Result::kInvalidArgument);
      refused.count_down();
    }
    EXPECT_EQ(settled(rank.comm), Result::kSuccess);
  });
}

TEST_F(FakeNccl, no_file_is_left_once_all_ranks_have_joined) {
  const int before = files_left();
  run_ranks(3, true, [before](Rank&) {
    // The last rank to join may not have closed it yet.
    const auto until = steady_clock::now() + milliseconds(5000);
    while (files_left() > before && steady_clock::now() < until) std::this_thread::yield();
    EXPECT_EQ(files_left(), before);
  });
}

TEST_F(FakeNccl, aborting_before_the_peers_come_leaves_no_file) {
  const int before = files_left();
  const Gpu gpu(0);
  nccl::Config config = config_of(false);
  nccl::Comm comm = nullptr;
  ncclCommInitRankConfig(&comm, 2, new_id(), 0, &config);
  EXPECT_EQ(files_left(), before + 1);
  EXPECT_EQ(ncclCommAbort(comm), Result::kSuccess);
  EXPECT_EQ(files_left(), before);
}

TEST_F(FakeNccl, groups_may_be_empty_and_nested_but_not_unbalanced) {
  EXPECT_EQ(ncclGroupStart(), Result::kSuccess);
  EXPECT_EQ(ncclGroupEnd(), Result::kSuccess);
  EXPECT_EQ(ncclGroupEnd(), Result::kInvalidUsage);
  run_ranks(2, false, [](Rank& rank) {
    const DeviceVector<float> first(1), second(1);
    ncclGroupStart();
    allreduce_one(rank, first);
    ncclGroupStart();
    allreduce_one(rank, second);
    EXPECT_EQ(ncclGroupEnd(), Result::kSuccess);
    EXPECT_EQ(ncclGroupEnd(), Result::kInProgress);
    rank.finish();
  });
  EXPECT_EQ(fake_nccl_counts().groups, 3u);
  EXPECT_EQ(fake_nccl_counts().launches, 2u);
  EXPECT_EQ(fake_nccl_counts().operations, 4u);
}

TEST_F(FakeNccl, groups_of_two_communicators_are_counted) {
  const Gpu gpu(0);
  const nccl::Comm one = joined(new_id(), 1, 0, true);
  const nccl::Comm two = joined(new_id(), 1, 0, true);
  const DeviceVector<float> data(1);
  ncclGroupStart();
  allreduce_one({0, 1, gpu, one}, data);
  allreduce_one({0, 1, gpu, two}, data);
  EXPECT_EQ(ncclGroupEnd(), Result::kSuccess);
  EXPECT_EQ(fake_nccl_counts().groups_of_several_communicators, 1u);
  ncclCommDestroy(one);
  ncclCommDestroy(two);
}

TEST_F(FakeNccl, sends_to_oneself_need_a_receive_in_the_group) {
  run_ranks(1, true, [](Rank& rank) {
    const DeviceVector<float> data(1);
    EXPECT_EQ(ncclSend(data.data(), 1, DataType::kFloat32, 0, rank.comm, rank.stream()),
              Result::kInvalidUsage);
  });
}

TEST_F(FakeNccl, the_log_tells_calls_in_the_order_of_launching) {
  run_ranks(3, false, [](Rank& rank) {
    const DeviceVector<float> data(3);
    allreduce_one(rank, data);
    rank.finish();
    ncclBroadcast(data.data(), data.data(), 2, DataType::kFloat32, 1, rank.comm, rank.stream());
    rank.finish();
  });
  std::vector<Call> calls(10);
  calls.resize(fake_nccl_log(calls.data(), calls.size()));
  ASSERT_EQ(calls.size(), 6u);
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<Call> own;
    for (const Call& call : calls)
      if (call.rank == rank) own.push_back(call);
    ASSERT_EQ(own.size(), 2u);
    EXPECT_EQ(own[0].kind, Kind::kAllReduce);
    EXPECT_EQ(own[0].count, 3u);
    EXPECT_EQ(own[0].group, 0u);
    EXPECT_EQ(own[1].kind, Kind::kBroadcast);
    EXPECT_EQ(own[1].peer, 1);
    EXPECT_EQ(own[1].communicator, calls.front().communicator);
  }
}

TEST_F(FakeNccl, memory_comes_from_the_device_until_told_otherwise) {
  const Gpu gpu(0);
  void* memory = nullptr;
  require(ncclMemAlloc(&memory, 64));
  EXPECT_NE(fake_cuda::fake_cuda_memory(memory, 64), nullptr);
  EXPECT_EQ(ncclMemFree(memory), Result::kSuccess);
  fake_nccl_fail_allocations(1);
  EXPECT_EQ(ncclMemAlloc(&memory, 64), Result::kUnhandledCudaError);
  EXPECT_EQ(fake_nccl_counts().allocations, 1u);
  EXPECT_EQ(fake_nccl_counts().frees, 1u);
}

/// One of two processes: this program again, which finds in its environment what rank it is.
pid_t start_process(const std::string& rank, const std::string& id, const std::string& test) {
  const pid_t child = fork();
  if (child != 0) return child;
  setenv("FAKE_NCCL_TEST_RANK", rank.c_str(), 1);
  setenv("FAKE_NCCL_TEST_ID", id.c_str(), 1);
  unsetenv("GTEST_TOTAL_SHARDS");  // the test may be of another part
  unsetenv("GTEST_SHARD_INDEX");
  execl("/proc/self/exe", "rank", ("--gtest_filter=" + test).c_str(), nullptr);
  _exit(127);
}

nccl::UniqueId id_of(const char* text) {
  nccl::UniqueId id{};
  std::strncpy(id.internal, text, sizeof(id.internal) - 1);
  return id;
}

void sum_with_the_other_process(int rank, const nccl::UniqueId& id) {
  const Gpu gpu(rank);
  const Rank self{rank, 2, gpu, joined(id, 2, rank, false)};
  const std::size_t count = 1'000'003;
  const DeviceVector<float> data(std::vector<float>(count, static_cast<float>(rank + 1)));
  for (int round = 0; round < 5; ++round) {
    allreduce_one(self, data);
    self.finish();
  }
  EXPECT_EQ(data.values(), std::vector<float>(count, 48));
  require(ncclCommDestroy(self.comm));
}

TEST_F(FakeNccl, ranks_may_be_processes) {
  if (const char* const rank = std::getenv("FAKE_NCCL_TEST_RANK"))
    return sum_with_the_other_process(std::atoi(rank), id_of(std::getenv("FAKE_NCCL_TEST_ID")));
  const nccl::UniqueId id = new_id();
  const std::string test = "FakeNccl.ranks_may_be_processes";
  const pid_t children[] = {start_process("0", id.internal, test), start_process("1", id.internal, test)};
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(FakeNccl, the_death_of_a_process_blocks_nobody) {
  if (std::getenv("FAKE_NCCL_TEST_RANK") != nullptr) {
    const Gpu gpu(1);
    joined(id_of(std::getenv("FAKE_NCCL_TEST_ID")), 2, 1, false);
    kill(getpid(), SIGKILL);
  }
  const int before = files_left();
  const nccl::UniqueId id = new_id();
  const pid_t child = start_process("1", id.internal, "FakeNccl.the_death_of_a_process_blocks_nobody");
  const Gpu gpu(0);
  const Rank self{0, 2, gpu, joined(id, 2, 0, false)};
  const DeviceVector<float> data(1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  allreduce_one(self, data);
  require(settled(self.comm));
  EXPECT_FALSE(gpu.is_idle());
  require(ncclCommAbort(self.comm));
  gpu.finish();
  EXPECT_EQ(files_left(), before);
}

TEST_F(FakeNccl, a_process_that_is_killed_before_its_peers_come_leaves_nothing) {
  if (std::getenv("FAKE_NCCL_TEST_RANK") != nullptr) {
    const Gpu gpu(0);
    nccl::Config config = config_of(false);
    nccl::Comm comm = nullptr;
    ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, new_id(), 0, &config), Result::kInProgress);
    kill(getpid(), SIGKILL);
  }
  const int before = names_in_shared_memory();
  const pid_t child =
      start_process("0", "", "FakeNccl.a_process_that_is_killed_before_its_peers_come_leaves_nothing");
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(names_in_shared_memory(), before);
}

TEST_F(FakeNccl, an_id_whose_process_has_ended_is_refused) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    const nccl::UniqueId id = new_id();
    _exit(write(ends[1], &id, sizeof(id)) == sizeof(id) ? 0 : 1);
  }
  waitpid(child, nullptr, 0);
  nccl::UniqueId id{};
  ASSERT_EQ(read(ends[0], &id, sizeof(id)), static_cast<ssize_t>(sizeof(id)));
  close(ends[0]);
  close(ends[1]);
  const Gpu gpu(0);
  nccl::Comm comm = nullptr;
  nccl::Config config;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), Result::kInvalidArgument);
}

}  // namespace
}  // namespace hora::fake_nccl::testing
