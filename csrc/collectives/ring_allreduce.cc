#include "collectives/ring_allreduce.h"

#include <algorithm>
#include <utility>

#include "collectives/chunks.h"
#include "collectives/reduce.h"

namespace hora {
namespace {

// Large enough to hide the cost of a message, small enough that buffers stay in the cache.
constexpr std::size_t kSegmentBytes = 256 * 1024;

}  // namespace

std::vector<std::vector<RingAllreduce::Segment>> ring_segments(std::size_t count, int ranks,
                                                               std::size_t element_bytes) {
  const Chunks chunks(count, ranks);
  const std::size_t most = kSegmentBytes / element_bytes;
  std::vector<std::vector<RingAllreduce::Segment>> segments(static_cast<std::size_t>(ranks));
  for (int chunk = 0; chunk < ranks; ++chunk) {
    const std::size_t end = chunks.first(chunk + 1);
    for (std::size_t first = chunks.first(chunk); first < end; first += most)
      segments[static_cast<std::size_t>(chunk)].push_back({first, std::min(most, end - first)});
  }
  return segments;
}

RingAllreduce::RingAllreduce(const Group& group, const std::vector<std::vector<Segment>>& chunks,
                             const Memory& memory, ReduceOp op, Buffer& scratch,
                             std::function<void(Segment)> finish)
    : group_(group),
      memory_(memory),
      op_(op),
      finish_(std::move(finish)),
      next_((group.rank() + 1) % group.size()),
      prev_((group.rank() + group.size() - 1) % group.size()) {
  for (int step = 0; step < group.size(); ++step) {
    const auto number = static_cast<std::size_t>(chunk(group.rank(), group.size(), step));
    order_.insert(order_.end(), chunks[number].begin(), chunks[number].end());
  }
  const auto length = [&](int number) { return chunks[static_cast<std::size_t>(number)].size(); };
  before_own_ = order_.size() - length(group.rank());
  first_chunk_ = length(prev_);
  passed_on_ = before_own_ - std::min(before_own_, length(next_));
  arriving_sums_ = order_.size() - first_chunk_;
  for (const Segment& segment : order_)
    segment_bytes_ = std::max(segment_bytes_, segment.count * size_of(memory.type));
  buffers_ = scratch.at_least(kDepth * segment_bytes_).data();
}

std::span<std::byte> RingAllreduce::sums(const Segment& segment) const {
  const std::size_t element = size_of(memory_.type);
  return {memory_.sums + segment.first * element, segment.count * element};
}

std::span<std::byte> RingAllreduce::results(const Segment& segment) const {
  return {memory_.results + segment.first * memory_.result_bytes, segment.count * memory_.result_bytes};
}

std::span<std::byte> RingAllreduce::buffer(std::size_t arrival, const Segment& segment) const {
  return {buffers_ + arrival % kDepth * segment_bytes_, segment.count * size_of(memory_.type)};
}

void RingAllreduce::advance() {
  if (group_.size() == 1) return finish_alone();
  do {
    while (may_send()) send_next();
    while (sent_ < sends_.size() && group_.done(sends_[sent_])) ++sent_;
    post_receives();
  } while (take_arrival());
}

bool RingAllreduce::is_over() const {
  const std::size_t to_send = group_.size() == 1 ? 0 : order_.size() + passed_on_;
  return finished_ == order_.size() && sent_ == to_send;
}

void RingAllreduce::finish_alone() {
  while (finished_ < available_) finish_(order_[finished_++]);
}

/// Results may go where sums are, once those have been sent.
void RingAllreduce::post_receives() {
  for (; posted_ < std::min(arrived_ + kDepth, arriving_sums_ + before_own_); ++posted_) {
    if (posted_ < arriving_sums_) {
      receives_[posted_ % kDepth] = group_.recv(prev_, buffer(posted_, order_[first_chunk_ + posted_]));
      continue;
    }
    const std::size_t position = posted_ - arriving_sums_;
    if (sent_ <= position) return;
    receives_[posted_ % kDepth] = group_.recv(prev_, results(order_[position]));
  }
}

/// Takes the next message, if it has come and can be used; says whether.
bool RingAllreduce::take_arrival() {
  if (arrived_ == posted_) return false;
  const bool is_sum = arrived_ < arriving_sums_;
  if (is_sum && first_chunk_ + arrived_ >= available_) return false;
  if (!group_.done(receives_[arrived_ % kDepth])) return false;
  if (is_sum) {
    add(first_chunk_ + arrived_);
  } else {
    ++finished_;
  }
  ++arrived_;
  return true;
}

void RingAllreduce::add(std::size_t position) {
  const Segment& segment = order_[position];
  reduce_into(sums(segment).data(), buffer(arrived_, segment).data(), segment.count, memory_.type, op_);
  if (position < before_own_) return;
  finish_(segment);
  ++finished_;
}

/// The first chunk goes out as the own sums are there, everything else in the order in which it arrives.
/// Ranks do not wait for each other in a circle here: each that is too far ahead of its arrivals has sent
/// more than the one before it, which cannot be so all around the ring.
bool RingAllreduce::may_send() const {
  const std::size_t next = sends_.size();
  if (next == order_.size() + passed_on_) return false;
  const bool has_everything = arrived_ == arriving_sums_ + before_own_;
  if (!has_everything && next >= arrived_ + kMostAhead) return false;
  return next < first_chunk_ ? next < available_ : arrived_ > next - first_chunk_;
}

void RingAllreduce::send_next() {
  const std::size_t number = sends_.size();
  const Segment& segment = order_[number % order_.size()];
  sends_.push_back(group_.send(next_, number < before_own_ ? sums(segment) : results(segment)));
}

}  // namespace hora
