#include "collectives/adasum.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/error.h"

namespace hora {
namespace {

/// Elements first to last - 1.
struct Range {
  std::size_t first;
  std::size_t last;

  [[nodiscard]] std::size_t length() const { return last - first; }
};

/// Scalar products of two vectors with each other and with themselves.
struct Products {
  double ab = 0;
  double aa = 0;
  double bb = 0;

  Products& operator+=(const Products& other) {
    ab += other.ab;
    aa += other.aa;
    bb += other.bb;
    return *this;
  }
};

/// How much of a vector stays: 1 for a vector of zeros.
double share(double product, double square) {
  return square == 0 ? 1.0 : 1.0 - product / (2 * square);
}

template <typename T>
class Adasum {
 public:
  Adasum(const Group& group, std::span<T> data, std::span<const std::size_t> lengths, Buffer& scratch)
      : group_(group),
        data_(data),
        lengths_(lengths),
        other_(reinterpret_cast<T*>(scratch.at_least(data.size_bytes()).data()), data.size()) {}

  void run() {
    const int rank = group_.rank();
    const auto paired = static_cast<int>(std::bit_floor(static_cast<unsigned>(group_.size())));
    const Range all{0, data_.size()};
    if (rank >= paired) {
      exchange(rank - paired, all, {0, 0}, data_);
      exchange(rank - paired, {0, 0}, all, data_);
      return;
    }
    const bool has_extra = rank + paired < group_.size();
    if (has_extra) {
      exchange(rank + paired, {0, 0}, all, other_);
      combine(all, products(all, true), true);
    }
    halve(all, paired);
    if (has_extra) exchange(rank + paired, all, {0, 0}, data_);
  }

 private:
  /// Sends a part of the data and receives another into the same place of `destination`.
  void exchange(int peer, Range sent, Range received, std::span<T> destination) const {
    Transfer incoming =
        group_.recv(peer, std::as_writable_bytes(destination.subspan(received.first, received.length())));
    Transfer outgoing = group_.send(peer, std::as_bytes(data_.subspan(sent.first, sent.length())));
    group_.wait(incoming);
    group_.wait(outgoing);
  }

  /// Combines with ever more distant ranks ever smaller halves, then puts them together on the way back.
  void halve(Range range, int paired) {
    const int rank = group_.rank();
    std::vector<Range> wholes;
    for (int distance = 1; distance < paired; distance *= 2) {
      const bool is_lower = (rank & distance) == 0;
      const auto [lower, upper] = halves(range);
      wholes.push_back(range);
      range = is_lower ? lower : upper;
      exchange(rank ^ distance, is_lower ? upper : lower, range, other_);
      std::vector<Products> sums = products(range, is_lower);
      for (int step = 1; step <= distance; step *= 2) add_from(rank ^ step, sums);
      combine(range, sums, is_lower);
    }
    for (int distance = paired / 2; distance > 0; distance /= 2) {
      const auto [lower, upper] = halves(wholes.back());
      exchange(rank ^ distance, range, (rank & distance) == 0 ? upper : lower, data_);
      range = wholes.back();
      wholes.pop_back();
    }
  }

  static std::pair<Range, Range> halves(Range range) {
    const std::size_t middle = range.first + range.length() / 2;
    return {{range.first, middle}, {middle, range.last}};
  }

  /// Both sides add the same two numbers, so they get the same bits.
  void add_from(int peer, std::vector<Products>& sums) const {
    std::vector<Products> theirs(sums.size());
    Transfer incoming = group_.recv(peer, std::as_writable_bytes(std::span(theirs)));
    Transfer outgoing = group_.send(peer, std::as_bytes(std::span(sums)));
    group_.wait(incoming);
    group_.wait(outgoing);
    for (std::size_t tensor = 0; tensor < sums.size(); ++tensor) sums[tensor] += theirs[tensor];
  }

  /// Calls `body` with the number of each tensor and its part of a range.
  template <typename Body>
  void for_each_tensor(Range range, Body body) const {
    std::size_t first = 0;
    for (std::size_t tensor = 0; tensor < lengths_.size(); ++tensor) {
      const std::size_t last = first + lengths_[tensor];
      const Range part{std::max(first, range.first), std::min(last, range.last)};
      if (part.first < part.last) body(tensor, part);
      first = last;
    }
  }

  /// For each tensor, over a range; a is the vector of the lower ranks.
  std::vector<Products> products(Range range, bool own_is_a) const {
    std::vector<Products> sums(lengths_.size());
    for_each_tensor(range, [&](std::size_t tensor, Range part) {
      Products sum;
      for (std::size_t at = part.first; at < part.last; ++at) {
        const auto own = static_cast<double>(data_[at]);
        const auto other = static_cast<double>(other_[at]);
        sum.ab += own * other;
        sum.aa += own * own;
        sum.bb += other * other;
      }
      if (!own_is_a) std::swap(sum.aa, sum.bb);
      sums[tensor] = sum;
    });
    return sums;
  }

  void combine(Range range, const std::vector<Products>& sums, bool own_is_a) {
    for_each_tensor(range, [&](std::size_t tensor, Range part) {
      const Products& sum = sums[tensor];
      double own = share(sum.ab, sum.aa);
      double other = share(sum.ab, sum.bb);
      if (!own_is_a) std::swap(own, other);
      for (std::size_t at = part.first; at < part.last; ++at)
        data_[at] =
            static_cast<T>(own * static_cast<double>(data_[at]) + other * static_cast<double>(other_[at]));
    });
  }

  const Group& group_;
  std::span<T> data_;
  std::span<const std::size_t> lengths_;
  std::span<T> other_;
};

template <typename T>
void run_adasum(const Group& group, std::span<std::byte> data, std::span<const std::size_t> lengths,
                Buffer& scratch) {
  const std::span values(reinterpret_cast<T*>(data.data()), data.size() / sizeof(T));
  Adasum<T>(group, values, lengths, scratch).run();
}

}  // namespace

void adasum(const Group& group, std::span<std::byte> data, std::span<const std::size_t> lengths, DType dtype,
            Buffer& scratch) {
  if (dtype == DType::kFloat32) return run_adasum<float>(group, data, lengths, scratch);
  if (dtype == DType::kFloat64) return run_adasum<double>(group, data, lengths, scratch);
  raise(ErrorKind::kSessionFailed, "no Adasum of {}", name(dtype));
}

}  // namespace hora
