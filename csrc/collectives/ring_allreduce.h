#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <vector>

#include "base/buffer.h"
#include "base/dtype.h"
#include "core/op.h"
#include "transport/group.h"

namespace hora {

/// Ring allreduce (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations", 2009), in small steps, so that whoever runs it can do other work meanwhile.
///
/// The ranks form a ring; the data is cut into one chunk per rank, each chunk into segments. A rank first
/// sends the chunk before its own. Then it adds each segment that arrives to its own sums and sends it on,
/// until the chunk of its own number comes round: that is complete then, is finished and goes round once more
/// as a result. Each rank sends 2(size-1)/size of the data, the least possible. Segments follow each other
/// without a pause, also where sums turn into results. A segment is reduced in one place and then copied, so
/// results are bit-equal on all ranks.
///
/// In *ring order* the chunks of a rank are those it handles one after another: the one before its own first,
/// its own last.
class RingAllreduce {
 public:
  /// A run of elements that travels as one message.
  struct Segment {
    std::size_t first;
    std::size_t count;
  };

  /// Where this rank keeps the elements, by their numbers.
  struct Memory {
    std::byte* sums;  ///< in an accumulation type
    DType type;
    std::byte* results;        ///< may be `sums` where the size is the same
    std::size_t result_bytes;  ///< of an element
  };

  /// The number of the chunk that comes `step`-th in ring order.
  [[nodiscard]] static int chunk(int rank, int size, int step) { return (rank - 1 - step + 2 * size) % size; }

  /// `chunks[c]` are the segments of chunk c, the same on all ranks. `finish` turns complete sums into
  /// results.
  RingAllreduce(const Group& group, const std::vector<std::vector<Segment>>& chunks, const Memory& memory,
                ReduceOp op, Buffer& scratch, std::function<void(Segment)> finish);

  [[nodiscard]] std::size_t segments() const { return order_.size(); }
  /// The own sums of the first `segments` in ring order are there.
  void make_available(std::size_t segments) { available_ = segments; }

  /// Does what can be done without waiting.
  void advance();

  /// So many results are there: first the segments of the own chunk, then the others in ring order.
  [[nodiscard]] std::size_t finished() const { return finished_; }
  /// Everything has come and gone.
  [[nodiscard]] bool is_over() const;

 private:
  // Receives posted ahead.
  static constexpr std::size_t kDepth = 4;
  // A rank is so many messages ahead of what has come to it: more would pile up in buffers of MPI.
  static constexpr std::size_t kMostAhead = 16;

  [[nodiscard]] std::span<std::byte> sums(const Segment& segment) const;
  [[nodiscard]] std::span<std::byte> results(const Segment& segment) const;
  [[nodiscard]] std::span<std::byte> buffer(std::size_t arrival, const Segment& segment) const;
  void finish_alone();
  void post_receives();
  [[nodiscard]] bool take_arrival();
  void add(std::size_t position);
  [[nodiscard]] bool may_send() const;
  void send_next();

  const Group& group_;
  const Memory memory_;
  const ReduceOp op_;
  const std::function<void(Segment)> finish_;
  const int next_;
  const int prev_;
  std::vector<Segment> order_;  // in ring order
  std::size_t before_own_;      // positions that are not of the own chunk
  std::size_t first_chunk_;     // length of the first chunk
  std::size_t passed_on_;       // results of positions below this are sent on; the next rank made the others
  std::size_t segment_bytes_ = 0;
  std::byte* buffers_;
  std::size_t available_ = 0;
  std::size_t posted_ = 0;  // arrivals: sums in ring order from the second chunk on, then results
  std::size_t arrived_ = 0;
  std::size_t arriving_sums_;
  std::size_t finished_ = 0;
  std::array<Transfer, kDepth> receives_;
  std::vector<Transfer> sends_;  // of each position: sums, and results of the own chunk; then other results
  std::size_t sent_ = 0;
};

/// The segments of a vector of `count` elements that is cut into one chunk for each of `ranks`.
[[nodiscard]] std::vector<std::vector<RingAllreduce::Segment>> ring_segments(std::size_t count, int ranks,
                                                                             std::size_t element_bytes);

}  // namespace hora
