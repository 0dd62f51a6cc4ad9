#include "support/virtual_job.h"

#include <fmt/format.h>

#include <iterator>
#include <numeric>
#include <stdexcept>

#include "base/text.h"

namespace hora::testing {

int JobShape::size() const {
  return std::accumulate(ranks_per_host.begin(), ranks_per_host.end(), 0);
}

std::string JobShape::to_string() const {
  return fmt::format("hosts of {} ranks, arity {}", join(ranks_per_host, ","), arity);
}

VirtualJob::VirtualJob(const JobShape& shape, const NegotiatorOptions& options) {
  const Topology topology = Topology::split(0, shape.size(), shape.ranks_per_host);
  for (int rank = 0; rank < shape.size(); ++rank)
    nodes_.push_back({Negotiator(Tree(topology, rank, shape.arity), options), {}, {}, {}, {}, 0});
}

void VirtualJob::submit(int rank, const Request& request) {
  at(rank).on_submit(request);
  collect(rank);
}

void VirtualJob::join(int rank) {
  at(rank).on_join();
  collect(rank);
}

void VirtualJob::leave(int rank, const std::string& reason) {
  at(rank).on_leave(reason);
  collect(rank);
}

void VirtualJob::fail(int rank, const std::string& reason) {
  at(rank).on_failure({rank, reason});
  collect(rank);
}

void VirtualJob::say_goodbye(int rank) {
  at(rank).say_goodbye();
  collect(rank);
}

bool VirtualJob::deliver(std::mt19937& random) {
  if (edges_.empty()) return false;
  const auto edge = std::next(edges_.begin(), static_cast<std::ptrdiff_t>(random() % edges_.size()));
  const auto [from, to] = edge->first;
  const Bytes message = std::move(edge->second.front());
  edge->second.pop_front();
  if (edge->second.empty()) edges_.erase(edge);
  at(to).on_message(from, message);
  collect(to);
  return true;
}

void VirtualJob::wait(int rank, const Key& key) {
  at(rank).on_wait(key);
  collect(rank);
}

void VirtualJob::tick(int rank, TimePoint now, bool waits) {
  at(rank).on_tick(now, waits);
  collect(rank);
}

Negotiator::Stalls VirtualJob::take_stalls(int rank) {
  return std::exchange(nodes_[static_cast<std::size_t>(rank)].stalls, {});
}

void VirtualJob::end_batches(int rank, std::int32_t process_set, std::uint64_t batches) {
  at(rank).on_through({process_set, batches});
  collect(rank);
}

bool VirtualJob::cut(std::size_t unfinished) {
  if (!at(0).can_cut(unfinished)) return false;
  at(0).cut(unfinished);
  collect(0);
  return true;
}

void VirtualJob::settle(std::size_t unfinished) {
  std::mt19937 random;
  constexpr int kFarTooMany = 1'000'000;
  for (int steps = 0; deliver(random) || cut(unfinished); ++steps) {
    if (steps > kFarTooMany) throw std::runtime_error("the negotiators never stop sending messages");
  }
}

void VirtualJob::collect(int rank) {
  Negotiator::Outputs outputs = at(rank).take_outputs();
  for (Negotiator::Outgoing& outgoing : outputs.messages) {
    ++messages_;
    message_bytes_ += outgoing.message.size();
    if (on_send) on_send(rank, outgoing.peer, outgoing.message);
    edges_[{rank, outgoing.peer}].push_back(std::move(outgoing.message));
  }
  Node& node = nodes_[static_cast<std::size_t>(rank)];
  for (Plan& plan : outputs.plans) {
    if (node.departure) ++node.late_plans;
    std::ranges::move(plan.batches, std::back_inserter(node.batches));
    if (plan.departure && !node.departure) node.departure = std::move(plan.departure);
  }
  if (outputs.failure && !node.failure) node.failure = std::move(outputs.failure);
  node.stalls.add(std::move(outputs.stalls));
}

std::vector<std::string> describe_batches(const std::vector<Batch>& batches) {
  std::vector<std::string> texts;
  for (const Batch& batch : batches) {
    std::vector<std::string> calls;
    for (const BatchEntry& entry : batch.entries) {
      std::string tensors;
      for (const TensorType& tensor : entry.signature->tensors)
        tensors += describe(tensor.dtype, tensor.shape) + " ";
      calls.push_back(
          fmt::format("{} {} {}#{}", name(entry.signature->op), entry.key.to_string(), tensors, entry.id));
    }
    texts.push_back(join(calls, " + ") + (batch.error.empty() ? "" : " ! " + batch.error));
  }
  return texts;
}

NegotiatorOptions negotiator_options(std::uint64_t fusion_threshold, std::uint64_t cache_capacity) {
  return {{fusion_threshold, 4096, {true, false, true, false, false, true}}, cache_capacity};
}

Request named_request(const std::string& name, Shape shape) {
  const TensorType tensor{DType::kFloat32, std::move(shape)};
  return {{name, 0}, {.tensors = {tensor}, .refusal = {}}, tensor.bytes()};
}

Request unnamed_request(std::uint64_t number, Shape shape) {
  Request request = named_request("", std::move(shape));
  request.key.number = number;
  return request;
}

Request on_device(Request request) {
  request.signature.device = DeviceKind::kCuda;
  return request;
}

Request on(std::int32_t process_set, Request request) {
  request.key.process_set = process_set;
  return request;
}

Request set_request(OpKind op, std::uint64_t number, std::vector<int> ranks) {
  return {{"", number}, {.op = op, .ranks = std::move(ranks)}, 0};
}

JobShape random_shape(std::mt19937& random, int most_ranks) {
  constexpr int kArities[] = {1, 2, 3, 16};
  const int size = 1 + static_cast<int>(random() % static_cast<unsigned>(most_ranks));
  const int most_per_host = 1 + static_cast<int>(random() % static_cast<unsigned>(size));
  JobShape shape{{}, kArities[random() % 4]};
  for (int left = size; left > 0; left -= shape.ranks_per_host.back()) {
    const int ranks = 1 + static_cast<int>(random() % static_cast<unsigned>(most_per_host));
    shape.ranks_per_host.push_back(std::min(left, ranks));
  }
  return shape;
}

}  // namespace hora::testing
