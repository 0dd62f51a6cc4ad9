#pragma once

#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "simulation/world.h"

namespace hora::simulation {

/// Messages on their way. Those from one rank to another keep their order, others do not.
class Network {
 public:
  using Deliver = std::function<void(int from, int to, const Bytes& message, Saboteur::Naming sent)>;

  Network(World& world, const Topology& topology, Deliver deliver)
      : world_(world), topology_(topology), deliver_(std::move(deliver)) {}

  void send(int from, int to, Bytes message, Saboteur::Naming sent);
  /// Some of what this rank has sent never arrives: the last messages on each of its ways.
  void lose_some_from(int rank);

 private:
  struct Letter {
    Bytes message;
    Saboteur::Naming sent;
    int copies;
  };
  struct Channel {
    std::deque<Letter> letters;
    Time last_arrival = 0;
    std::size_t lost = 0;  // at the end
  };

  [[nodiscard]] Time delay(int from, int to);
  void arrive(int from, int to, Channel& channel);

  World& world_;
  const Topology& topology_;
  Deliver deliver_;
  std::map<std::pair<int, int>, Channel> channels_;
};

}  // namespace hora::simulation
