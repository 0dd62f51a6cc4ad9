// The negotiators of all ranks in one thread. Time is simulated: a node handles one message after the other,
// and all ranks announce a wave at the same moment, the worst that can happen to the nodes above them.

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <utility>
#include <vector>

#include "agreement/cost.h"
#include "base/error.h"
#include "negotiation/negotiator.h"
#include "ops/table.h"

namespace hora::benchmarks {
namespace {

constexpr std::uint64_t kThreshold = 64u << 20;

/// The longest chains of messages that a node's knowledge hangs on.
struct Chain {
  int inside = 0;
  int between = 0;
};

struct Letter {
  double arrival_us;
  std::uint64_t number;  // of two that arrive at once, the one sent first
  int from;
  int to;
  Chain chain;
  Bytes message;

  bool operator<(const Letter& other) const {
    return std::pair(arrival_us, number) > std::pair(other.arrival_us, other.number);
  }
};

class SimulatedJob {
 public:
  SimulatedJob(int ranks, const CostOptions& options)
      : options_(options),
        topology_(Topology::split(0, ranks, split(ranks, options.ranks_per_host))),
        nodes_(static_cast<std::size_t>(ranks)) {
    const NegotiatorOptions negotiator{{kThreshold, kThreshold, fusable_ops()}, 65536};
    negotiators_.reserve(nodes_.size());
    for (int rank = 0; rank < ranks; ++rank)
      negotiators_.emplace_back(Tree(topology_, rank, options.arity), negotiator);
  }

  Cost run_step(const std::vector<Request>& requests) {
    cost_ = {};
    wave_start_us_ = 0;
    std::ranges::fill(nodes_, Node{});
    const auto per_wave = (requests.size() + waves() - 1) / waves();
    for (std::size_t first = 0; first < requests.size(); first += per_wave)
      run_wave({requests.begin() + static_cast<std::ptrdiff_t>(first),
                requests.begin() + static_cast<std::ptrdiff_t>(std::min(first + per_wave, requests.size()))});
    for (double* sum :
         {&cost_.messages_inside, &cost_.messages_between, &cost_.bytes_inside, &cost_.bytes_between})
      *sum /= static_cast<double>(nodes_.size());
    cost_.time_us /= static_cast<double>(waves());
    for (const Node& node : nodes_)
      cost_.most_bytes = std::max(cost_.most_bytes, static_cast<double>(node.bytes));
    return cost_;
  }

 private:
  struct Node {
    double free_us = 0;
    Chain chain;
    int received = 0;
    std::size_t planned = 0;
    std::uint64_t bytes = 0;  // of all waves

    void begin_wave() {
      free_us = 0;
      chain = {};
      received = 0;
      planned = 0;
    }
  };

  static std::vector<int> split(int ranks, int ranks_per_host) {
    std::vector<int> hosts(static_cast<std::size_t>(ranks / ranks_per_host), ranks_per_host);
    if (ranks % ranks_per_host != 0) hosts.push_back(ranks % ranks_per_host);
    return hosts;
  }

  [[nodiscard]] std::size_t waves() const { return static_cast<std::size_t>(options_.waves); }

  void run_wave(const std::vector<Request>& requests) {
    for (Node& node : nodes_) node.begin_wave();
    for (std::size_t rank = 0; rank < nodes_.size(); ++rank) {
      for (const Request& request : requests) negotiators_[rank].on_submit(request);
      collect(rank);
    }
    cut();
    while (!letters_.empty()) {
      const Letter letter = letters_.top();
      letters_.pop();
      receive(letter);
    }
    for (const Node& node : nodes_) {
      if (node.planned != requests.size()) raise(ErrorKind::kSessionFailed, "calls are missing");
      cost_.time_us = std::max(cost_.time_us, wave_start_us_ + node.free_us);
      cost_.fan_in = std::max(cost_.fan_in, node.received);
      cost_.steps_inside = std::max(cost_.steps_inside, node.chain.inside);
      cost_.steps_between = std::max(cost_.steps_between, node.chain.between);
    }
    wave_start_us_ = cost_.time_us;
  }

  void receive(const Letter& letter) {
    const auto rank = static_cast<std::size_t>(letter.to);
    Node& node = nodes_[rank];
    ++node.received;
    node.bytes += letter.message.size();
    node.free_us = std::max(node.free_us, letter.arrival_us) + options_.handling_us;
    node.chain.inside = std::max(node.chain.inside, letter.chain.inside);
    node.chain.between = std::max(node.chain.between, letter.chain.between);
    negotiators_[rank].on_message(letter.from, letter.message);
    collect(rank);
    if (rank == 0) cut();
  }

  void cut() {
    if (!negotiators_.front().can_cut()) return;
    negotiators_.front().cut();
    collect(0);
  }

  void collect(std::size_t rank) {
    Negotiator::Outputs outputs = negotiators_[rank].take_outputs();
    for (const Plan& plan : outputs.plans) {
      for (const Batch& batch : plan.batches) nodes_[rank].planned += batch.entries.size();
    }
    for (Negotiator::Outgoing& outgoing : outputs.messages)
      send(static_cast<int>(rank), outgoing.peer, std::move(outgoing.message));
  }

  void send(int from, int to, Bytes message) {
    const bool is_between = topology_.host_of(from) != topology_.host_of(to);
    const std::uint64_t bytes = message.size();
    Node& node = nodes_[static_cast<std::size_t>(from)];
    node.bytes += bytes;
    node.free_us += options_.handling_us;
    Chain chain = node.chain;
    ++(is_between ? chain.between : chain.inside);
    (is_between ? cost_.messages_between : cost_.messages_inside) += 1;
    (is_between ? cost_.bytes_between : cost_.bytes_inside) += static_cast<double>(bytes);
    letters_.push({node.free_us + options_.message_us(bytes, is_between), sent_++, from, to, chain,
                   std::move(message)});
  }

  const CostOptions options_;
  const Topology topology_;
  std::vector<Negotiator> negotiators_;
  std::vector<Node> nodes_;
  std::priority_queue<Letter> letters_;
  std::uint64_t sent_ = 0;
  double wave_start_us_ = 0;
  Cost cost_;
};

/// Tensors of a dozen shapes, as the layers of a network have them.
std::vector<Request> make_requests(int tensors) {
  constexpr int kShapes = 12;
  std::vector<Request> requests;
  for (int tensor = 0; tensor < tensors; ++tensor) {
    Signature signature;
    signature.tensors = {{DType::kFloat32, {64, 1 + tensor % kShapes}}};
    const std::size_t bytes = signature.bytes();
    requests.push_back({{fmt::format("layers.{}.weight", tensor)}, std::move(signature), bytes});
  }
  return requests;
}

}  // namespace

Costs tree_cost(int ranks, const CostOptions& options) {
  options.check();
  SimulatedJob job(ranks, options);
  const std::vector<Request> requests = make_requests(options.tensors);
  Costs costs;
  costs.cold = job.run_step(requests);
  costs.steady = job.run_step(requests);
  return costs;
}

}  // namespace hora::benchmarks
