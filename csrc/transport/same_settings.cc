#include "transport/same_settings.h"

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/table.h"
#include "core/rank_set.h"
#include "transport/smallest.h"

namespace hora {
namespace {

// A list of values is shorter by far.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 20;

/// Not negative, so that it can be told by its smallest and, turned round, by its largest.
std::int64_t digest_of(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return static_cast<std::int64_t>(hash_of({&text, 1}) >> 2);
}

void send_bytes(Transport& transport, int peer, std::span<const std::byte> bytes,
                const StartDeadline& deadline) {
  const std::uint64_t length = bytes.size();
  deadline.await(transport, transport.send(peer, Transport::kStartTag, std::as_bytes(std::span(&length, 1))));
  deadline.await(transport, transport.send(peer, Transport::kStartTag, bytes));
}

Bytes receive_bytes(Transport& transport, int peer, const StartDeadline& deadline) {
  std::uint64_t length = 0;
  const auto room = std::as_writable_bytes(std::span(&length, 1));
  deadline.await(transport, transport.recv(peer, Transport::kStartTag, room));
  if (length > kMostBytes)
    raise(ErrorKind::kStartup, "rank {} sent a damaged message: {} bytes of settings", peer, length);
  Bytes bytes(length);
  deadline.await(transport, transport.recv(peer, Transport::kStartTag, bytes));
  return bytes;
}

/// Rank 0 hears of all values, and tells all what differs.
std::string find_differences(Transport& transport, const std::vector<NamedValue>& own, Duration timeout) {
  const StartDeadline deadline(timeout);
  const int size = transport.topology().size();
  if (transport.topology().rank() > 0) {
    send_bytes(transport, 0, encode_values(own), deadline);
    const Bytes table = receive_bytes(transport, 0, deadline);
    return {reinterpret_cast<const char*>(table.data()), table.size()};
  }
  std::vector<std::vector<NamedValue>> of_ranks{own};
  for (int peer = 1; peer < size; ++peer)
    of_ranks.push_back(decode_values(receive_bytes(transport, peer, deadline)));
  const std::string table = describe_differences(of_ranks).substr(0, kMostBytes);
  for (int peer = 1; peer < size; ++peer)
    send_bytes(transport, peer, std::as_bytes(std::span(table)), deadline);
  return table;
}

}  // namespace

Bytes encode_values(const std::vector<NamedValue>& values) {
  ByteWriter out;
  out.varint(values.size());
  for (const NamedValue& value : values) {
    out.text(value.name);
    out.text(value.value);
  }
  return out.take();
}

std::vector<NamedValue> decode_values(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  std::vector<NamedValue> values(in.length());
  for (NamedValue& value : values) {
    value.name = in.text();
    value.value = in.text();
  }
  in.end();
  return values;
}

std::string describe_differences(std::span<const std::vector<NamedValue>> of_ranks) {
  std::map<std::string, std::map<std::string, std::vector<int>>> ranks_of;  // by name, by value
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    for (const auto& [name, value] : of_ranks[rank]) ranks_of[name][value].push_back(static_cast<int>(rank));
  }
  std::vector<std::vector<std::string>> rows{{"setting", "value", "ranks"}};
  for (const auto& [name, values] : ranks_of) {
    if (values.size() == 1 && values.begin()->second.size() == of_ranks.size()) continue;
    for (const auto& [value, ranks] : values)
      rows.push_back({name, value.empty() ? "not set" : value, RankSet(ranks).to_string()});
  }
  std::string table;
  for (const std::string& line : aligned(rows)) table += "\n  " + line;
  return table;
}

void require_same(Transport& transport, const std::vector<NamedValue>& own, Duration timeout) {
  if (transport.topology().size() == 1) return;
  const std::int64_t digest = digest_of(encode_values(own));
  // Both are asked for in any case, so that all ranks do the same.
  const std::int64_t lowest = smallest(transport, digest, timeout);
  const std::int64_t highest_turned = smallest(transport, -digest, timeout);
  if (lowest == digest && highest_turned == -digest) return;
  raise(ErrorKind::kStartup, "the ranks of this job differ in what has to be the same on all of them:{}",
        find_differences(transport, own, timeout));
}

}  // namespace hora
