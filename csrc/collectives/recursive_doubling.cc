#include "collectives/recursive_doubling.h"

#include <algorithm>
#include <bit>

#include "collectives/reduce.h"

namespace hora {
namespace {

class RecursiveDoubling {
 public:
  RecursiveDoubling(const Group& group, std::span<std::byte> data, DType dtype, ReduceOp op, Buffer& scratch)
      : group_(group), data_(data), other_(scratch.at_least(data.size())), dtype_(dtype), op_(op) {}

  void run() {
    const int rank = group_.rank();
    const auto paired = static_cast<int>(std::bit_floor(static_cast<unsigned>(group_.size())));
    if (rank >= paired) {
      give(rank - paired, data_);
      take(rank - paired, data_);
      return;
    }
    const bool has_extra = rank + paired < group_.size();
    if (has_extra) {
      take(rank + paired, other_);
      add(rank + paired);
    }
    for (int distance = 1; distance < paired; distance *= 2) {
      exchange(rank ^ distance);
      add(rank ^ distance);
    }
    if (has_extra) give(rank + paired, data_);
  }

 private:
  void give(int peer, std::span<const std::byte> data) {
    Transfer transfer = group_.send(peer, data);
    group_.wait(transfer);
  }
  void take(int peer, std::span<std::byte> data) {
    Transfer transfer = group_.recv(peer, data);
    group_.wait(transfer);
  }
  void exchange(int peer) {
    Transfer incoming = group_.recv(peer, other_);
    Transfer outgoing = group_.send(peer, data_);
    group_.wait(incoming);
    group_.wait(outgoing);
  }
  void add(int peer) {
    const std::size_t count = data_.size() / size_of(dtype_);
    if (group_.rank() < peer) return reduce_into(data_.data(), other_.data(), count, dtype_, op_);
    reduce_into(other_.data(), data_.data(), count, dtype_, op_);
    std::ranges::copy(other_, data_.begin());
  }

  const Group& group_;
  const std::span<std::byte> data_;
  const std::span<std::byte> other_;  // of another rank
  const DType dtype_;
  const ReduceOp op_;
};

}  // namespace

void recursive_doubling_allreduce(const Group& group, std::span<std::byte> data, DType dtype, ReduceOp op,
                                  Buffer& scratch) {
  RecursiveDoubling(group, data, dtype, op, scratch).run();
}

}  // namespace hora
