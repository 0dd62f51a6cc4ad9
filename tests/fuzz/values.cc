// What ranks tell each other to find out whether their settings are the same. The first byte says whether a
// list of values is read and compared with another, or what rank 0 or rank 1 hears when it compares.

#include "fuzz.h"
#include "transport/memory.h"
#include "transport/same_settings.h"

namespace hora::fuzz {
namespace {

void compare_lists(ByteReader& in) {
  const std::string first = in.text();
  const std::string second = in.text();
  std::vector<std::vector<NamedValue>> of_ranks;
  for (const std::string& text : {first, second}) {
    of_ranks.push_back(decode_values(std::as_bytes(std::span(text))));
    const Bytes once = encode_values(of_ranks.back());
    require(encode_values(decode_values(once)) == once);
  }
  require(describe_differences(of_ranks).starts_with("\n  setting"));
}

/// The other rank has sent all that it will before this one listens.
void compare_with(ByteReader& in, int rank) {
  const auto fabric = make_memory_fabric(2);
  MemoryTransport own(fabric, Topology(rank, {0, 0}));
  MemoryTransport other(fabric, Topology(1 - rank, {0, 0}));
  const auto say = [&](std::span<const std::byte> bytes) {
    static_cast<void>(other.send(rank, Transport::kStartTag, bytes));
  };
  for (int number = 0; number < 2; ++number) {
    const auto told = in.fixed<std::int64_t>();
    say(std::as_bytes(std::span(&told, 1)));
  }
  const auto length = in.fixed<std::uint64_t>();
  say(std::as_bytes(std::span(&length, 1)));
  const std::string text = in.text();
  if (length == text.size()) say(std::as_bytes(std::span(text)));
  require_same(own, {{"HORA_CACHE_CAPACITY", "1024"}}, std::chrono::milliseconds(1));
}

}  // namespace

void take(std::span<const std::byte> input) {
  ByteReader in(input);
  switch (in.up_to(2)) {
    case 0:
      return compare_lists(in);
    case 1:
      return compare_with(in, 0);
    default:
      return compare_with(in, 1);
  }
}

}  // namespace hora::fuzz
