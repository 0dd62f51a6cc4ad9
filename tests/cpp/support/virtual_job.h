#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "negotiation/negotiator.h"

namespace hora::testing {

/// Where a virtual job runs.
struct JobShape {
  std::vector<int> ranks_per_host;
  int arity;

  [[nodiscard]] int size() const;
  [[nodiscard]] std::string to_string() const;
};

/// The negotiators of all ranks of a job in one thread. Messages wait in one queue per edge and direction;
/// which queue moves next is the test's choice, so that any order can happen that real transports allow.
class VirtualJob {
 public:
  VirtualJob(const JobShape& shape, const NegotiatorOptions& options);

  [[nodiscard]] int size() const { return static_cast<int>(nodes_.size()); }
  [[nodiscard]] Negotiator& at(int rank) { return nodes_[static_cast<std::size_t>(rank)].negotiator; }

  void submit(int rank, const Request& request);
  void join(int rank);
  void leave(int rank, const std::string& reason);
  void fail(int rank, const std::string& reason);
  void say_goodbye(int rank);

  /// Delivers the oldest message of some edge; says whether there was any.
  bool deliver(std::mt19937& random);
  /// A thread of the rank waits for a call on a device.
  void wait(int rank, const Key& key);
  /// Time passes at a rank.
  void tick(int rank, TimePoint now, bool waits);
  /// The device of the rank is through with batches of a process set.
  void end_batches(int rank, std::int32_t process_set, std::uint64_t batches);
  /// The root plans what is ready, with so many batches on its device; says whether anything was.
  bool cut(std::size_t unfinished = 0);
  /// Delivers and cuts until nothing moves any more. Throws when that does not end.
  void settle(std::size_t unfinished = 0);

  /// What came out at a rank, in order.
  [[nodiscard]] const std::vector<Batch>& batches(int rank) const { return node(rank).batches; }
  [[nodiscard]] const std::optional<Departure>& departure(int rank) const { return node(rank).departure; }
  [[nodiscard]] const std::optional<Failure>& failure(int rank) const { return node(rank).failure; }
  /// What has come out at a rank about calls that stand still, and forgets it.
  [[nodiscard]] Negotiator::Stalls take_stalls(int rank);
  /// A rank takes part in the agreement itself.
  void collect(int rank);
  /// Batches or departures that came out at a rank after its departure.
  [[nodiscard]] int late_plans(int rank) const { return node(rank).late_plans; }

  /// All messages sent so far, and the bytes in them.
  [[nodiscard]] std::uint64_t messages() const { return messages_; }
  [[nodiscard]] std::uint64_t message_bytes() const { return message_bytes_; }
  /// Called with every message sent from now on.
  std::function<void(int from, int to, const Bytes& message)> on_send;

 private:
  struct Node {
    Negotiator negotiator;
    std::vector<Batch> batches;
    std::optional<Departure> departure;
    std::optional<Failure> failure;
    Negotiator::Stalls stalls = {};
    int late_plans = 0;
  };
  [[nodiscard]] const Node& node(int rank) const { return nodes_[static_cast<std::size_t>(rank)]; }

  std::vector<Node> nodes_;
  std::map<std::pair<int, int>, std::deque<Bytes>> edges_;  // by (from, to); only those with messages
  std::uint64_t messages_ = 0;
  std::uint64_t message_bytes_ = 0;
};

/// "allreduce 'x' float32[2] #3" for each call, batches separated; equal texts mean an equal sequence.
[[nodiscard]] std::vector<std::string> describe_batches(const std::vector<Batch>& batches);

/// Options as the engine has them: allreduce, broadcast and reducescatter can be fused.
[[nodiscard]] NegotiatorOptions negotiator_options(std::uint64_t fusion_threshold = 1000,
                                                   std::uint64_t cache_capacity = 1000);

/// A named allreduce of float32.
[[nodiscard]] Request named_request(const std::string& name, Shape shape = {2});
/// The `number`th unnamed allreduce of float32.
[[nodiscard]] Request unnamed_request(std::uint64_t number, Shape shape = {2});

/// The same for tensors on a device.
[[nodiscard]] Request on_device(Request request);
/// The request, made among the members of a process set.
[[nodiscard]] Request on(std::int32_t process_set, Request request);
/// The `number`th unnamed call, which adds or removes a process set.
[[nodiscard]] Request set_request(OpKind op, std::uint64_t number, std::vector<int> ranks);

/// A random job of up to `most_ranks` ranks.
[[nodiscard]] JobShape random_shape(std::mt19937& random, int most_ranks);

}  // namespace hora::testing
