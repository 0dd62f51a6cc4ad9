#include "negotiation/message.h"

#include <limits>
#include <utility>

#include "base/error.h"
#include "negotiation/message_parts.h"

namespace hora {
namespace {

/// Ids of one model mostly follow each other, so each is sent as its distance to the one before: one byte.
class IdWriter {
 public:
  void write(ByteWriter& out, std::uint32_t id) {
    out.signed_varint(static_cast<std::int64_t>(id) - previous_ - 1);
    previous_ = id;
  }

 private:
  std::int64_t previous_ = 0;
};

class IdReader {
 public:
  std::uint32_t read(ByteReader& in) {
    previous_ += 1 + static_cast<std::uint64_t>(in.signed_varint());
    if (previous_ > std::numeric_limits<std::uint32_t>::max()) in.fail("a tensor id is out of range");
    return static_cast<std::uint32_t>(previous_);
  }

 private:
  std::uint64_t previous_ = 0;  // a negative distance wraps
};

Departure read_departure(ByteReader& in) {
  const int rank = read_rank(in);
  return {rank, in.text()};
}

void write_entry(ByteWriter& out, IdWriter& ids, const BatchEntry& entry, std::uint32_t first_new_id) {
  const bool is_described = entry.id == 0 || entry.id >= first_new_id;
  ids.write(out, entry.id);
  out.varint(entry.key.number << 1 | (is_described ? 1 : 0));
  if (!is_described) return;
  out.text(entry.key.name);
  entry.signature->write(out);
}

// A route is one byte and what in it is not as usual.
constexpr unsigned kTwoPhase = 1;
constexpr unsigned kStreaming = 2;
constexpr unsigned kDoubling = 4;
constexpr unsigned kOtherBlocks = 8;
constexpr unsigned kOtherAcross = 16;
constexpr std::size_t kRouteFlags = 32;

void write_route(ByteWriter& out, const Route& route) {
  const Route usual;
  unsigned flags = 0;
  if (route.reduction == Route::Reduction::kTwoPhase) flags |= kTwoPhase;
  if (route.streaming) flags |= kStreaming;
  if (route.across == Route::Across::kDoubling) flags |= kDoubling;
  if (route.block_bytes != usual.block_bytes) flags |= kOtherBlocks;
  if (route.across_bytes != usual.across_bytes) flags |= kOtherAcross;
  out.fixed(static_cast<std::uint8_t>(flags));
  if ((flags & kOtherBlocks) != 0) out.varint(route.block_bytes);
  if ((flags & kOtherAcross) != 0) out.varint(route.across_bytes);
}

Route read_route(ByteReader& in) {
  const auto flags = static_cast<unsigned>(in.one_of<std::uint8_t>(kRouteFlags));
  Route route;
  route.reduction = (flags & kTwoPhase) != 0 ? Route::Reduction::kTwoPhase : Route::Reduction::kOnePhase;
  route.streaming = (flags & kStreaming) != 0;
  route.across = (flags & kDoubling) != 0 ? Route::Across::kDoubling : Route::Across::kRing;
  constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
  if ((flags & kOtherBlocks) != 0) route.block_bytes = in.up_to(kMost);
  if ((flags & kOtherAcross) != 0) route.across_bytes = in.up_to(kMost);
  if (route.block_bytes < Route::kLeastBlockBytes || route.across_bytes == 0)
    raise(ErrorKind::kSessionFailed, "damaged message: blocks of {} bytes, messages of {}", route.block_bytes,
          route.across_bytes);
  return route;
}

BatchEntry read_entry(ByteReader& in, IdReader& ids, std::int32_t process_set, Cache& cache) {
  BatchEntry entry;
  entry.id = ids.read(in);
  const std::uint64_t number_and_flag = in.varint();
  entry.key.number = number_and_flag >> 1;
  entry.key.process_set = process_set;
  if ((number_and_flag & 1) == 0) {
    const Cache::Known& known = cache.get(entry.id);
    if (known.process_set != process_set) in.fail("a tensor of another process set");
    entry.key.name = known.name;
    entry.signature = known.signature;
    return entry;
  }
  entry.key.name = in.text();
  entry.signature = Signature::read(in);
  if (entry.id != 0) cache.learn(entry.id, entry.key, entry.signature);
  return entry;
}

}  // namespace

MessageKind kind_of(std::span<const std::byte> message) {
  return ByteReader(message).one_of<MessageKind>(kMessageKinds);
}

Bytes encode(const std::vector<Announcement>& announcements) {
  ByteWriter out = begin_message(MessageKind::kAnnounce);
  out.varint(announcements.size());
  IdWriter ids;
  for (const Announcement& announcement : announcements) {
    ids.write(out, announcement.id);
    const bool is_partial = announcement.contributors.size() > 0;
    out.varint(announcement.key.number << 1 | (is_partial ? 1 : 0));
    if (is_partial) announcement.contributors.write(out);
    if (announcement.id != 0) continue;
    out.text(announcement.key.name);
    out.signed_varint(announcement.key.process_set);
    out.varint(announcement.variants.size());
    for (const Variant& variant : announcement.variants) {
      variant.signature.write(out);
      variant.ranks.write(out);
    }
  }
  return out.take();
}

std::vector<Announcement> decode_announcements(std::span<const std::byte> message, const Cache& cache) {
  ByteReader in = body_of(message, MessageKind::kAnnounce);
  std::vector<Announcement> announcements(in.length());
  IdReader ids;
  for (Announcement& announcement : announcements) {
    announcement.id = ids.read(in);
    const std::uint64_t number_and_flag = in.varint();
    announcement.key.number = number_and_flag >> 1;
    if ((number_and_flag & 1) != 0) announcement.contributors = RankSet::read(in);
    if (announcement.id != 0) {
      const Cache::Known& known = cache.get(announcement.id);
      announcement.key.name = known.name;
      announcement.key.process_set = known.process_set;
      continue;
    }
    announcement.key.name = in.text();
    announcement.key.process_set = in.signed_number<std::int32_t>();
    const std::size_t variants = in.length();
    if (variants == 0) in.fail("an announcement of nothing");
    for (std::size_t at = 0; at < variants; ++at) {
      Signature signature = Signature::read(in);
      announcement.variants.push_back({std::move(signature), RankSet::read(in)});
      if (variants > 1 && announcement.variants.back().ranks.empty()) in.fail("something that nobody sent");
    }
  }
  in.end();
  return announcements;
}

Bytes encode(const Plan& plan, std::uint32_t first_new_id) {
  ByteWriter out = begin_message(MessageKind::kPlan);
  out.signed_varint(plan.process_set);
  out.varint(plan.batches.size());
  out.varint(plan.batches.empty() ? 0 : plan.batches.front().number);  // the others follow
  IdWriter ids;
  for (const Batch& batch : plan.batches) {
    out.varint(batch.piece_bytes);
    write_route(out, batch.route);
    out.varint(static_cast<std::uint64_t>(batch.contributors));
    out.varint(static_cast<std::uint64_t>(batch.divisor));
    out.signed_varint(batch.value);
    out.text(batch.error);
    out.varint(batch.entries.size());
    for (const BatchEntry& entry : batch.entries) write_entry(out, ids, entry, first_new_id);
  }
  out.fixed(plan.departure.has_value());
  if (plan.departure) write_text_and_rank(out, plan.departure->rank, plan.departure->reason);
  return out.take();
}

Plan decode_plan(std::span<const std::byte> message, Cache& cache) {
  ByteReader in = body_of(message, MessageKind::kPlan);
  Plan plan;
  plan.process_set = in.signed_number<std::int32_t>();
  plan.batches.resize(in.length());
  std::uint64_t number = in.varint();
  IdReader ids;
  for (Batch& batch : plan.batches) {
    batch.number = number++;
    batch.piece_bytes = in.varint();
    batch.route = read_route(in);
    batch.contributors = in.up_to(kMostRanks);
    batch.divisor = in.up_to(kMostRanks);
    batch.value = in.signed_varint();
    batch.error = in.text();
    const std::size_t entries = in.length();
    if (entries == 0) in.fail("a batch of nothing");
    for (std::size_t at = 0; at < entries; ++at)
      batch.entries.push_back(read_entry(in, ids, plan.process_set, cache));
  }
  if (in.one_of<bool>(2)) plan.departure = read_departure(in);
  in.end();
  return plan;
}

Bytes encode_join(int rank) {
  ByteWriter out = begin_message(MessageKind::kJoin);
  out.varint(static_cast<std::uint64_t>(rank));
  return out.take();
}

int decode_join(std::span<const std::byte> message) {
  ByteReader in = body_of(message, MessageKind::kJoin);
  const int rank = read_rank(in);
  in.end();
  return rank;
}

Bytes encode_waits(const std::vector<Key>& keys) {
  ByteWriter out = begin_message(MessageKind::kWait);
  out.varint(keys.size());
  for (const Key& key : keys) write_key(out, key);
  return out.take();
}

std::vector<Key> decode_waits(std::span<const std::byte> message) {
  ByteReader in = body_of(message, MessageKind::kWait);
  std::vector<Key> keys(in.length());
  for (Key& key : keys) key = read_key(in);
  in.end();
  return keys;
}

Bytes encode(const Departure& departure) {
  ByteWriter out = begin_message(MessageKind::kDepart);
  write_text_and_rank(out, departure.rank, departure.reason);
  return out.take();
}

Departure decode_departure(std::span<const std::byte> message) {
  ByteReader in = body_of(message, MessageKind::kDepart);
  Departure departure = read_departure(in);
  in.end();
  return departure;
}

Bytes encode(const Failure& failure) {
  ByteWriter out = begin_message(MessageKind::kFailure);
  write_text_and_rank(out, failure.rank, failure.reason);
  return out.take();
}

Failure decode_failure(std::span<const std::byte> message) {
  ByteReader in = body_of(message, MessageKind::kFailure);
  const int rank = read_rank(in);
  Failure failure{rank, in.text()};
  in.end();
  return failure;
}

Bytes encode_goodbye() {
  return begin_message(MessageKind::kGoodbye).take();
}

}  // namespace hora
