#pragma once

// What tests may ask of the stand-in for NCCL beside NCCL's own interface. All functions are exported by
// libhora_fake_nccl.so and may be called from any thread. Everything here is of one process.
//
// The stand-in ends the process with a message on what would be a hang or wrong data with NCCL, or would be
// so only sometimes: calls that differ between ranks, buffers outside of living allocations, launches of one
// communicator from several threads, a stream or a context of another device, handles used after their end.

#include <cstddef>
#include <cstdint>

#include "backends/nccl/nccl_api.h"

namespace hora::fake_nccl {

/// What has happened since the process began or since fake_nccl_reset.
struct Counts {
  std::uint64_t communicators_made;
  std::uint64_t communicators_destroyed;
  std::uint64_t communicators_aborted;
  std::uint64_t operations;  ///< calls of collectives, sends and receives that were launched
  std::uint64_t launches;    ///< pieces of work put on streams, one for each group and communicator
  std::uint64_t groups;      ///< outermost group ends, those without calls too
  std::uint64_t groups_of_several_communicators;
  std::uint64_t allocations;
  std::uint64_t frees;
  std::uint64_t uses_in_progress;  ///< calls refused since the one before was not finished
};

struct Options {
  /// Decides how long things that happen later take: becoming ready, launching, finalizing. Each takes
  /// between nothing and `max_delay_us`.
  std::uint64_t seed = 1;
  std::uint32_t max_delay_us = 300;
  /// This many polls after each initialization, launch and finalization of a non-blocking communicator say
  /// kInProgress, whatever the truth is.
  std::uint32_t polls_in_progress = 0;
  /// An abort blocks this long before it ends the communicator's work.
  std::uint32_t abort_ms = 0;
  /// Whether breaking our own rules ends the process: one launching thread for each communicator, the context
  /// of its device current at each call, no use of a handle after its end.
  bool check_rules = true;
  /// A blocking initialization that waits longer for its peers fails with kSystemError.
  std::uint32_t init_timeout_ms = 60'000;
  /// Destroying a communicator whose work takes longer than this ends the process.
  std::uint32_t destroy_timeout_ms = 10'000;
};

enum class Kind : std::uint32_t {
  kAllReduce,
  kBroadcast,
  kReduceScatter,
  kAllGather,
  kSend,
  kReceive,
};

/// One launched call.
struct Call {
  std::uint64_t communicator;  ///< made of the unique id, hence equal on all ranks
  std::uint64_t group;         ///< number of the launch on the communicator, from 0
  int rank;
  Kind kind;
  std::size_t count;
  nccl::DataType type;
  nccl::RedOp op;  ///< kSum where there is none
  int peer;        ///< root, or the peer of a send or receive; else -1
};

extern "C" {

Counts fake_nccl_counts();

/// The environment gives the values at the beginning: HORA_FAKE_NCCL_SEED, HORA_FAKE_NCCL_DELAY_US,
/// HORA_FAKE_NCCL_POLLS, HORA_FAKE_NCCL_ABORT_MS, HORA_FAKE_NCCL_CHECK_RULES (0 or 1).
void fake_nccl_set_options(const Options* options);

/// Counts, log, options and injected faults become as they were at the beginning; the environment is read
/// again. Communicators live on.
void fake_nccl_reset();

// Injected faults. A rank is a rank of a communicator, whichever comes; operations are counted from 0 on each
// communicator. A hang and an error strike once.

/// Each operation of the rank begins this late. At the beginning: HORA_FAKE_NCCL_SLOW="rank:us".
void fake_nccl_slow(int rank, std::uint32_t delay_us);

/// The operation never begins; only aborting ends it. HORA_FAKE_NCCL_HANG_AT="rank:operation".
void fake_nccl_hang_at(int rank, std::uint64_t operation);

/// As fake_nccl_hang_at, and the asynchronous error becomes kRemoteError then.
/// HORA_FAKE_NCCL_ERROR_AT="rank:operation".
void fake_nccl_error_at(int rank, std::uint64_t operation);

/// The next `count` initializations fail as when the device has no memory, with kUnhandledCudaError: at once
/// if blocking, else as the asynchronous error. HORA_FAKE_NCCL_FAIL_INITS.
void fake_nccl_fail_inits(int count);

/// The same for ncclMemAlloc. HORA_FAKE_NCCL_FAIL_ALLOCATIONS.
void fake_nccl_fail_allocations(int count);

/// Copies the first `capacity` launched calls in the order of launching and returns how many there are.
std::size_t fake_nccl_log(Call* calls, std::size_t capacity);
}

}  // namespace hora::fake_nccl
