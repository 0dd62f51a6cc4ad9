#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace hora {

/// The tensors of a batch on this rank, seen as one long vector of elements: what a collective cuts into
/// blocks without packing it first.
class Pieces {
 public:
  explicit Pieces(std::size_t element_bytes) : element_bytes_(element_bytes) {}

  /// Appends `count` elements. `input` is null where this rank contributes nothing, `output` where it wants
  /// no result.
  void add(const std::byte* input, std::byte* output, std::size_t count) {
    if (count == 0) return;
    pieces_.push_back({input, output, count_});
    count_ += count;
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t element_bytes() const { return element_bytes_; }
  [[nodiscard]] std::size_t bytes() const { return count_ * element_bytes_; }

  /// Calls `body(input, output, offset, count)` for each run of elements that lies in one tensor, from
  /// element `first` of the vector on; `offset` counts bytes from there.
  template <typename Body>
  void visit(std::size_t first, std::size_t count, Body body) const {
    const std::size_t end = first + count;
    auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), first,
                                  [](std::size_t at, const Piece& each) { return at < each.first; });
    for (std::size_t at = first; at < end;) {
      const Piece& current = *(piece - 1);
      const std::size_t piece_end = piece == pieces_.end() ? count_ : piece->first;
      const std::size_t length = std::min(end, piece_end) - at;
      const std::size_t skip = (at - current.first) * element_bytes_;
      body(current.input == nullptr ? nullptr : current.input + skip,
           current.output == nullptr ? nullptr : current.output + skip, (at - first) * element_bytes_,
           length);
      at += length;
      ++piece;
    }
  }

 private:
  struct Piece {
    const std::byte* input;
    std::byte* output;
    std::size_t first;  // element of the vector
  };
  std::size_t element_bytes_;
  std::vector<Piece> pieces_;
  std::size_t count_ = 0;
};

}  // namespace hora
