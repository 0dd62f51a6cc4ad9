#pragma once

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "api/session.h"
#include "transport/group.h"
#include "transport/shm/host_memory.h"
#include "transport/transport.h"
#include "transport/wake/connect.h"

namespace hora::testing {

/// Puts something between a rank and the transport it is given.
using WrapTransport = std::function<std::unique_ptr<Transport>(std::unique_ptr<Transport>)>;

struct RunOptions {
  /// Ranks per host. Empty: all on one, or spread evenly over as many as HORA_TEST_HOSTS says, so that the
  /// same tests run with several.
  std::vector<int> host_split = {};
  Settings settings = {};
  std::chrono::seconds deadline{60};
  /// The ranks of a host share memory, over the in-memory transport. By default as HORA_TEST_SHARED_MEMORY
  /// says, so that the same tests run with and without, and with HORA_TEST_HOSTS.
  bool shared_memory =
      std::getenv("HORA_TEST_SHARED_MEMORY") != nullptr || std::getenv("HORA_TEST_HOSTS") != nullptr;
  std::size_t slot_bytes = HostMemoryOptions{}.slot_bytes;
  /// Connections over which ranks wake each other, above the in-memory transport.
  std::optional<LinkOptions> links = {};
  WrapTransport wrap = {};
};

/// Runs `body` once per rank, each on a thread of its own with a real Session over the in-memory transport,
/// and joins them; a session ends where its body does. The first failure is thrown again with its rank
/// named, and ends the other ranks; so does the deadline.
void run_ranks(int size, const std::function<void(Session&)>& body, const RunOptions& options = {});

/// The same with the raw transport.
void run_transports(int size, const std::function<void(Transport&)>& body, const RunOptions& options = {});

/// The same with a group of all ranks, as collectives get it; pieces have the size of the settings.
void run_groups(int size, const std::function<void(const Group&)>& body, const RunOptions& options = {});

/// The numbers of ranks on which everything must work.
inline constexpr int kRankCounts[] = {1, 2, 3, 4, 7, 8};

}  // namespace hora::testing
