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
  kAnnounce,  ///< to the parent: tensors that the whole subtree is ready for
  kPlan,      ///< to the children: the next part of the sequence; relayed unchanged
  kJoin,      ///< to the parent: a rank of the subtree has joined
  kDepart,    ///< to the parent: a rank of the subtree leaves
  kWait,      ///< to the parent: a thread waits for calls on devices
  kFailure,   ///< to all neighbours: the session is broken
  kGoodbye,   ///< last message on an edge
  kThrough,   ///< to the parent: the device of a process set's first rank is through with batches
};
inline constexpr std::size_t kMessageKinds = 8;

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

[[nodiscard]] MessageKind kind_of(std::span<const std::byte> message);

[[nodiscard]] Bytes encode(const std::vector<Announcement>& announcements);
/// Ids from `first_new_id` on are new to the receivers, so that their description goes along.
[[nodiscard]] Bytes encode(const Plan& plan, std::uint32_t first_new_id);
[[nodiscard]] Bytes encode_join(int rank);
[[nodiscard]] Bytes encode_waits(const std::vector<Key>& keys);
[[nodiscard]] Bytes encode(const Departure& departure);
[[nodiscard]] Bytes encode(const Failure& failure);
[[nodiscard]] Bytes encode_goodbye();
[[nodiscard]] Bytes encode(const Through& through);

[[nodiscard]] std::vector<Announcement> decode_announcements(std::span<const std::byte> message,
                                                             const Cache& cache);
/// Entries that use an id for the first time carry their description; `cache` learns them on the way.
[[nodiscard]] Plan decode_plan(std::span<const std::byte> message, Cache& cache);
[[nodiscard]] int decode_join(std::span<const std::byte> message);
[[nodiscard]] std::vector<Key> decode_waits(std::span<const std::byte> message);
[[nodiscard]] Departure decode_departure(std::span<const std::byte> message);
[[nodiscard]] Failure decode_failure(std::span<const std::byte> message);
[[nodiscard]] Through decode_through(std::span<const std::byte> message);

}  // namespace hora
