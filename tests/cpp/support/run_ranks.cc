#include "support/run_ranks.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <thread>

#include "base/text.h"
#include "collectives/chunks.h"
#include "support/device.h"
#include "support/forwarding_transport.h"
#include "transport/memory.h"
#include "transport/shm/shm_transport.h"
#include "transport/wake/linked_transport.h"

namespace hora::testing {
namespace {

/// How long ranks may take to end once they have been stopped.
constexpr std::chrono::seconds kGrace{15};
constexpr std::size_t kHeapBytes = std::size_t{64} << 20;

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

/// Ranks that are threads of one process map a segment only once. Lock map: everything -> mutex.
class Mappings {
 public:
  [[nodiscard]] Segment open(Descriptor file, std::size_t bytes) {
    struct stat status{};
    fstat(file.get(), &status);
    const std::lock_guard lock(mutex_);
    const auto known = segments_.find(status.st_ino);
    if (known != segments_.end()) return known->second.with_file(std::move(file));
    Segment segment = Segment::open(std::move(file), bytes);
    segments_.emplace(status.st_ino, segment.with_file(Descriptor(dup(segment.file()))));
    return segment;
  }

 private:
  std::mutex mutex_;
  std::map<ino_t, Segment> segments_;
};

std::vector<int> split_of(int size, const RunOptions& options) {
  if (!options.host_split.empty()) return options.host_split;
  const char* const hosts = std::getenv("HORA_TEST_HOSTS");
  const int count = hosts == nullptr ? 1 : std::min(std::atoi(hosts), size);
  std::vector<int> split;
  for (int host = 0; host < count; ++host)
    split.push_back(static_cast<int>(Chunks(static_cast<std::size_t>(size), count).length(host)));
  return split;
}

std::unique_ptr<Transport> make_transport(std::shared_ptr<MemoryFabric> fabric, Mappings& mappings, int rank,
                                          int size, const RunOptions& options,
                                          const std::atomic<bool>& stopped) {
  const std::vector<int> split = split_of(size, options);
  std::unique_ptr<Transport> transport =
      std::make_unique<MemoryTransport>(std::move(fabric), Topology::split(rank, size, split));
  if (options.links) transport = with_links(std::move(transport), *options.links);
  if (options.shared_memory) {
    HostMemoryOptions shared;
    shared.heap_bytes = kHeapBytes;
    shared.slot_bytes = options.slot_bytes;
    shared.open = [&mappings](Descriptor file, std::size_t bytes) {
      return mappings.open(std::move(file), bytes);
    };
    transport = with_shared_memory(std::move(transport), shared);
  }
  if (options.wrap) transport = options.wrap(std::move(transport));
  return std::make_unique<StoppableTransport>(std::move(transport), stopped);
}

using Body = std::function<void(std::unique_ptr<Transport>)>;
using Make = std::function<std::unique_ptr<Transport>(int rank)>;

void run_rank(Run& run, int rank, const Make& make, const Body& body) {
  try {
    body(make(rank));
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
  Mappings mappings;
  const Make make = [&](int rank) {
    return make_transport(fabric, mappings, rank, size, options, run.stopped);
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back(run_rank, std::ref(run), rank, std::cref(make), std::cref(body));
  }
  end_in_time(run, options.deadline);
  for (std::thread& thread : threads) thread.join();
  if (!run.failure.empty()) throw std::runtime_error(run.failure);
}

}  // namespace

void run_ranks(int size, const std::function<void(Session&)>& body, const RunOptions& options) {
  run_threads(size, options, [&](std::unique_ptr<Transport> transport) {
    std::optional<TestDevice> device;
    if (tests_use_devices()) device.emplace(transport->topology().rank());
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
        body(Group(transport, ranks, transport.topology().rank(), kTag, options.settings.piece_bytes,
                   [] { std::this_thread::yield(); }));
      },
      options);
}

}  // namespace hora::testing
