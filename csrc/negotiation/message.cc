#include "negotiation/message.h"

#include <utility>

#include "base/error.h"

namespace hora {
namespace {

ByteWriter begin(MessageKind kind) {
  ByteWriter out;
  out.fixed(kind);
  return out;
}

ByteReader body(std::span<const std::byte> message, MessageKind expected) {
  ByteReader in(message);
  if (in.one_of<MessageKind>(kMessageKinds) != expected)
    raise(ErrorKind::kSessionFailed, "unexpected control message");
  return in;
}

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
    previous_ += 1 + in.signed_varint();
    return static_cast<std::uint32_t>(previous_);
  }

 private:
  std::int64_t previous_ = 0;
};

void write_text_and_rank(ByteWriter& out, int rank, const std::string& text) {
  out.varint(static_cast<std::uint64_t>(rank));
  out.text(text);
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
  if ((flags & kOtherBlocks) != 0) route.block_bytes = static_cast<std::uint32_t>(in.varint());
  if ((flags & kOtherAcross) != 0) route.across_bytes = static_cast<std::uint32_t>(in.varint());
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
  ByteWriter out = begin(MessageKind::kAnnounce);
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
  ByteReader in = body(message, MessageKind::kAnnounce);
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
    announcement.key.process_set = static_cast<std::int32_t>(in.signed_varint());
    const std::size_t variants = in.length();
    for (std::size_t at = 0; at < variants; ++at) {
      Signature signature = Signature::read(in);
      announcement.variants.push_back({std::move(signature), RankSet::read(in)});
    }
  }
  return announcements;
}

Bytes encode(const Plan& plan, std::uint32_t first_new_id) {
  ByteWriter out = begin(MessageKind::kPlan);
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
  ByteReader in = body(message, MessageKind::kPlan);
  Plan plan;
  plan.process_set = static_cast<std::int32_t>(in.signed_varint());
  plan.batches.resize(in.length());
  std::uint64_t number = in.varint();
  IdReader ids;
  for (Batch& batch : plan.batches) {
    batch.number = number++;
    batch.piece_bytes = in.varint();
    batch.route = read_route(in);
    batch.contributors = static_cast<int>(in.varint());
    batch.divisor = static_cast<int>(in.varint());
    batch.value = in.signed_varint();
    batch.error = in.text();
    const std::size_t entries = in.length();
    for (std::size_t at = 0; at < entries; ++at)
      batch.entries.push_back(read_entry(in, ids, plan.process_set, cache));
  }
  if (in.one_of<bool>(2)) {
    const auto rank = static_cast<int>(in.varint());
    plan.departure = Departure{rank, in.text()};
  }
  return plan;
}

Bytes encode_join(int rank) {
  ByteWriter out = begin(MessageKind::kJoin);
  out.varint(static_cast<std::uint64_t>(rank));
  return out.take();
}

int decode_join(std::span<const std::byte> message) {
  return static_cast<int>(body(message, MessageKind::kJoin).varint());
}

Bytes encode_waits(const std::vector<Key>& keys) {
  ByteWriter out = begin(MessageKind::kWait);
  out.varint(keys.size());
  for (const Key& key : keys) {
    out.text(key.name);
    out.varint(key.number);
    out.signed_varint(key.process_set);
  }
  return out.take();
}

std::vector<Key> decode_waits(std::span<const std::byte> message) {
  ByteReader in = body(message, MessageKind::kWait);
  std::vector<Key> keys(in.length());
  for (Key& key : keys) {
    key.name = in.text();
    key.number = in.varint();
    key.process_set = static_cast<std::int32_t>(in.signed_varint());
  }
  return keys;
}

Bytes encode(const Departure& departure) {
  ByteWriter out = begin(MessageKind::kDepart);
  write_text_and_rank(out, departure.rank, departure.reason);
  return out.take();
}

Departure decode_departure(std::span<const std::byte> message) {
  ByteReader in = body(message, MessageKind::kDepart);
  const auto rank = static_cast<int>(in.varint());
  return {rank, in.text()};
}

Bytes encode(const Failure& failure) {
  ByteWriter out = begin(MessageKind::kFailure);
  write_text_and_rank(out, failure.rank, failure.reason);
  return out.take();
}

Failure decode_failure(std::span<const std::byte> message) {
  ByteReader in = body(message, MessageKind::kFailure);
  const auto rank = static_cast<int>(in.varint());
  return {rank, in.text()};
}

Bytes encode_goodbye() {
  return begin(MessageKind::kGoodbye).take();
}

Bytes encode(const Through& through) {
  ByteWriter out = begin(MessageKind::kThrough);
  out.signed_varint(through.process_set);
  out.varint(through.batches);
  return out.take();
}

Through decode_through(std::span<const std::byte> message) {
  ByteReader in = body(message, MessageKind::kThrough);
  const auto process_set = static_cast<std::int32_t>(in.signed_varint());
  return {process_set, in.varint()};
}

}  // namespace hora
