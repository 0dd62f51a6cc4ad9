#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "core/batch.h"
#include "core/rank_set.h"
#include "negotiation/cache.h"

namespace hora {

/// The control messages between neighbours in the tree. The first byte of a message says which one it is.
enum class MessageKind : std::uint8_t {
  kAnnounce,        ///< to the parent: tensors that the whole subtree is ready for
  kPlan,            ///< to the children: the next part of the sequence; relayed unchanged
  kJoin,            ///< to the parent: a rank of the subtree has joined
  kDepart,          ///< to the parent: a rank of the subtree leaves
  kWait,            ///< to the parent: a thread waits for calls on devices
  kFailure,         ///< to all neighbours: the session is broken
  kGoodbye,         ///< last message on an edge
  kStalled,         ///< to the parent: calls that not all ranks of the subtree have made for long
  kHeard,           ///< to a child: the same has come
  kQuestion,        ///< to the children: some ranks are asked what they are doing
  kAnswer,          ///< to the parent: what a rank is doing
  kLasting,         ///< to the parent: a batch that a rank has been at for long
  kThrough,         ///< to the parent: the device of a process set's first rank is through with batches
  kCallerQuestion,  ///< to the children: some ranks are asked where they made a call
  kCallerAnswer,    ///< to the parent: where a rank made a call
};
inline constexpr std::size_t kMessageKinds = 15;

/// One attribute set seen for a tensor, and the ranks that sent it.
struct Variant {
  Signature signature;
  RankSet ranks;  ///< empty in a message where the whole subtree of the sender agrees
};

/// A tensor that every rank of the sender's subtree has announced.
struct Announcement {
  Key key;
  std::uint32_t id = 0;           ///< not 0: all ranks sent what this id means, and variants is empty
  std::vector<Variant> variants;  ///< exactly one where all agree
  RankSet contributors;           ///< ranks that announced it; empty: all members of the subtree
};

/// How many batches of a process set the device of its first rank is through with since the last time.
struct Through {
  std::int32_t process_set = 0;
  std::uint64_t batches = 0;
};

struct Failure {
  int rank = 0;
  std::string reason;
};

/// A call that not all ranks have made for long.
struct StalledCall {
  Key key;
  OpKind op = OpKind::kAllreduce;
  std::uint64_t seconds = 0;  ///< since a rank made it
  RankSet made_by;            ///< in the subtree of the sender
  RankSet missing;            ///< in no message: found by the root
};

/// Ranks are asked what they are doing.
struct Question {
  std::uint32_t number = 0;
  RankSet ranks;
};

struct Answer {
  std::uint32_t question = 0;
  int rank = 0;
  std::uint64_t batches = 0;  ///< that this rank has begun
  bool is_in_batch = false;   ///< it is at the last of them
  std::string where;          ///< the stack of its main thread; empty: not known
};

/// Ranks are asked where they made a call about which ranks disagree.
struct CallerQuestion {
  std::uint32_t number = 0;
  Key key;
  RankSet ranks;
};

struct CallerAnswer {
  std::uint32_t question = 0;
  int rank = 0;
  std::string where;  ///< "train.py:41"; empty: not known
};

/// A batch that a rank has been at for long.
struct LastingBatch {
  std::uint64_t number = 0;
  std::int32_t process_set = kGlobalSet;
  std::uint64_t seconds = 0;
  std::string what;  ///< "allreduce 'x'"
};

[[nodiscard]] MessageKind kind_of(std::span<const std::byte> message);

[[nodiscard]] Bytes encode(const std::vector<Announcement>& announcements);
/// Ids from `first_new_id` on are new to the receivers, so that their description goes along.
[[nodiscard]] Bytes encode(const Plan& plan, std::uint32_t first_new_id);
[[nodiscard]] Bytes encode_join(int rank);
[[nodiscard]] Bytes encode_waits(const std::vector<Key>& keys);
[[nodiscard]] Bytes encode(const Departure& departure);
[[nodiscard]] Bytes encode(const Failure& failure);
[[nodiscard]] Bytes encode_goodbye();
[[nodiscard]] Bytes encode(const std::vector<StalledCall>& calls);
[[nodiscard]] Bytes encode_heard();
[[nodiscard]] Bytes encode(const Question& question);
[[nodiscard]] Bytes encode(const Answer& answer);
[[nodiscard]] Bytes encode(const LastingBatch& batch);
[[nodiscard]] Bytes encode(const Through& through);
[[nodiscard]] Bytes encode(const CallerQuestion& question);
[[nodiscard]] Bytes encode(const CallerAnswer& answer);

// These throw Error(kSessionFailed) for bytes that no `encode` has written. Whether what they tell makes
// sense in this job, `plausible.h` knows.

[[nodiscard]] std::vector<Announcement> decode_announcements(std::span<const std::byte> message,
                                                             const Cache& cache);
/// Entries that use an id for the first time carry their description; `cache` learns them on the way.
[[nodiscard]] Plan decode_plan(std::span<const std::byte> message, Cache& cache);
[[nodiscard]] int decode_join(std::span<const std::byte> message);
[[nodiscard]] std::vector<Key> decode_waits(std::span<const std::byte> message);
[[nodiscard]] Departure decode_departure(std::span<const std::byte> message);
[[nodiscard]] Failure decode_failure(std::span<const std::byte> message);
[[nodiscard]] std::vector<StalledCall> decode_stalled(std::span<const std::byte> message);
[[nodiscard]] Question decode_question(std::span<const std::byte> message);
[[nodiscard]] Answer decode_answer(std::span<const std::byte> message);
[[nodiscard]] LastingBatch decode_lasting(std::span<const std::byte> message);
[[nodiscard]] Through decode_through(std::span<const std::byte> message);
[[nodiscard]] CallerQuestion decode_caller_question(std::span<const std::byte> message);
[[nodiscard]] CallerAnswer decode_caller_answer(std::span<const std::byte> message);

}  // namespace hora
