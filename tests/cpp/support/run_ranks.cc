#include "support/run_ranks.h"

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "base/text.h"
#include "support/forwarding_transport.h"
#include "transport/memory.h"

namespace hora::testing {
namespace {

/// How long ranks may take to end once they have been stopped.
constexpr std::chrono::seconds kGrace{15};

/// What the ranks of a run share. Lock map: everything but `stopped` -> mutex.
struct Run {
  std::atomic<bool> stopped{false};
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> ended;
  std::string failure;

  explicit Run(int size) : ended(static_cast<std::size_t>(size), false) {}

  void fail(const std::string& why) {
    const std::lock_guard lock(mutex);
    if (failure.empty()) failure = why;
    stopped = true;
  }

  void end(int rank) {
    {
      const std::lock_guard lock(mutex);
      ended[static_cast<std::size_t>(rank)] = true;
    }
    changed.notify_all();
  }

  [[nodiscard]] bool wait_for(std::chrono::seconds time) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, time, [this] {
      return std::accumulate(ended.begin(), ended.end(), true, std::logical_and<>());
    });
  }

  [[nodiscard]] std::string unfinished() {
    const std::lock_guard lock(mutex);
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < ended.size(); ++rank) {
      if (!ended[rank]) ranks.push_back(static_cast<int>(rank));
    }
    return join(ranks, ",");
  }
};

/// Throws out of whatever its rank is doing once the run has been stopped.
class StoppableTransport final : public ForwardingTransport {
 public:
  StoppableTransport(std::unique_ptr<Transport> inner, const std::atomic<bool>& stopped)
      : ForwardingTransport(std::move(inner)), stopped_(stopped) {}

  [[nodiscard]] bool receive(Incoming& incoming) override {
    if (stopped_) throw std::runtime_error("the test was stopped");
    return ForwardingTransport::receive(incoming);
  }
  [[nodiscard]] bool done(Ticket& ticket) override {
    if (stopped_) throw std::runtime_error("the test was stopped");
    return ForwardingTransport::done(ticket);
  }

 private:
  const std::atomic<bool>& stopped_;
};

std::unique_ptr<Transport> make_transport(std::shared_ptr<MemoryFabric> fabric, int rank, int size,
                                          const RunOptions& options, const std::atomic<bool>& stopped) {
  const std::vector<int> split = options.host_split.empty() ? std::vector<int>{size} : options.host_split;
  std::unique_ptr<Transport> transport =
      std::make_unique<MemoryTransport>(std::move(fabric), Topology::split(rank, size, split));
  if (options.wrap) transport = options.wrap(std::move(transport));
  return std::make_unique<StoppableTransport>(std::move(transport), stopped);
}

using Body = std::function<void(std::unique_ptr<Transport>)>;

void run_rank(Run& run, int rank, std::unique_ptr<Transport> transport, const Body& body) {
  try {
    body(std::move(transport));
  } catch (const std::exception& error) {
    run.fail(fmt::format("rank {}: {}", rank, error.what()));
  }
  run.end(rank);
}

/// A rank that hangs where it cannot be stopped takes the process with it, which is this one test.
void end_in_time(Run& run, std::chrono::seconds deadline) {
  if (run.wait_for(deadline)) return;
  run.fail(fmt::format("ranks {} did not end within {} s", run.unfinished(), deadline.count()));
  if (run.wait_for(kGrace)) return;
  fmt::print(stderr, "{}; ranks {} cannot be stopped\n", run.failure, run.unfinished());
  std::abort();
}

void run_threads(int size, const RunOptions& options, const Body& body) {
  Run run(size);
  const auto fabric = make_memory_fabric(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back(run_rank, std::ref(run), rank,
                         make_transport(fabric, rank, size, options, run.stopped), std::cref(body));
  }
  end_in_time(run, options.deadline);
  for (std::thread& thread : threads) thread.join();
  if (!run.failure.empty()) throw std::runtime_error(run.failure);
}

}  // namespace

void run_ranks(int size, const std::function<void(Session&)>& body, const RunOptions& options) {
  run_threads(size, options, [&](std::unique_ptr<Transport> transport) {
    Session session(std::move(transport), options.settings);
    body(session);
  });
}

void run_transports(int size, const std::function<void(Transport&)>& body, const RunOptions& options) {
  run_threads(size, options, [&](std::unique_ptr<Transport> transport) { body(*transport); });
}

void run_groups(int size, const std::function<void(const Group&)>& body, const RunOptions& options) {
  auto ranks = std::make_shared<std::vector<int>>(static_cast<std::size_t>(size));
  std::iota(ranks->begin(), ranks->end(), 0);
  run_transports(
      size,
      [&](Transport& transport) {
        constexpr int kTag = 1;
        body(Group(transport, ranks, kTag, options.settings.piece_bytes, [] { std::this_thread::yield(); }));
      },
      options);
}

}  // namespace hora::testing
