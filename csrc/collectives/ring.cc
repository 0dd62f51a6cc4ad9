#include "collectives/ring.h"

#include <algorithm>
#include <array>

#include "collectives/chunks.h"
#include "collectives/reduce.h"

namespace hora {
namespace {

// Large enough to hide the cost of a message, small enough that the scratch stays in the cache.
constexpr std::size_t kSegmentBytes = 256 * 1024;
// Receives posted ahead.
constexpr std::size_t kDepth = 4;

int wrap(int rank, int size) {
  return (rank % size + size) % size;
}

/// The segments that arrive at one rank during a reduce-scatter, in order.
struct Segment {
  std::size_t first;   ///< byte offset in the data
  std::size_t length;  ///< bytes
  bool is_last_step;   ///< complete once added, so not sent on
};

std::vector<Segment> arriving_segments(const Group& group, std::span<const std::size_t> bounds) {
  std::vector<Segment> segments;
  for (int step = 0; step < group.size() - 1; ++step) {
    const auto chunk = static_cast<std::size_t>(wrap(group.rank() - step - 2, group.size()));
    for (std::size_t first = bounds[chunk]; first < bounds[chunk + 1]; first += kSegmentBytes) {
      const std::size_t length = std::min(kSegmentBytes, bounds[chunk + 1] - first);
      segments.push_back({first, length, step == group.size() - 2});
    }
  }
  return segments;
}

}  // namespace

std::vector<std::size_t> chunk_bounds(const Group& group, std::size_t count, std::size_t element_bytes) {
  const Chunks chunks(count, group.size());
  std::vector<std::size_t> bounds;
  for (int chunk = 0; chunk <= group.size(); ++chunk) bounds.push_back(chunks.first(chunk) * element_bytes);
  return bounds;
}

void ring_reduce_scatter(const Group& group, std::span<std::byte> data, std::span<const std::size_t> bounds,
                         DType dtype, ReduceOp op, Buffer& scratch) {
  const int size = group.size();
  const int next = wrap(group.rank() + 1, size);
  const int prev = wrap(group.rank() - 1, size);
  const std::vector<Segment> arriving = arriving_segments(group, bounds);
  const std::span<std::byte> slots = scratch.at_least(kDepth * kSegmentBytes);

  std::vector<Transfer> sends;
  const auto send = [&](std::size_t first, std::size_t length) {
    sends.push_back(group.send(next, data.subspan(first, length)));
  };
  const auto first_sent = static_cast<std::size_t>(prev);
  for (std::size_t first = bounds[first_sent]; size > 1 && first < bounds[first_sent + 1];
       first += kSegmentBytes) {
    send(first, std::min(kSegmentBytes, bounds[first_sent + 1] - first));
  }

  std::array<Transfer, kDepth> receives;
  const auto slot = [&](std::size_t number) {
    return slots.subspan(number % kDepth * kSegmentBytes, arriving[number].length);
  };
  const auto post = [&](std::size_t number) {
    if (number < arriving.size()) receives[number % kDepth] = group.recv(prev, slot(number));
  };
  for (std::size_t ahead = 0; ahead < kDepth; ++ahead) post(ahead);
  for (std::size_t number = 0; number < arriving.size(); ++number) {
    const Segment& segment = arriving[number];
    group.wait(receives[number % kDepth]);
    reduce_into(data.data() + segment.first, slot(number).data(), segment.length / size_of(dtype), dtype, op);
    post(number + kDepth);
    if (!segment.is_last_step) send(segment.first, segment.length);
  }
  for (Transfer& transfer : sends) group.wait(transfer);
}

void ring_allgather(const Group& group, std::span<std::byte> data, std::span<const std::size_t> bounds) {
  const int size = group.size();
  const int next = wrap(group.rank() + 1, size);
  const int prev = wrap(group.rank() - 1, size);
  const auto chunk = [&](int number) {
    const auto at = static_cast<std::size_t>(wrap(number, size));
    return data.subspan(bounds[at], bounds[at + 1] - bounds[at]);
  };
  for (int step = 0; step < size - 1; ++step) {
    Transfer incoming = group.recv(prev, chunk(group.rank() - step - 1));
    Transfer outgoing = group.send(next, chunk(group.rank() - step));
    group.wait(incoming);
    group.wait(outgoing);
  }
}

}  // namespace hora
