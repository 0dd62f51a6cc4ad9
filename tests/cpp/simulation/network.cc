#include "simulation/network.h"

#include <algorithm>

namespace hora::simulation {

void Network::send(int from, int to, Bytes message, Saboteur::Naming sent) {
  const int copies = world_.saboteur.copies(message);
  Channel& channel = channels_[{from, to}];
  channel.letters.push_back({std::move(message), sent, copies});
  channel.last_arrival = std::max(channel.last_arrival, world_.events.now() + delay(from, to));
  world_.events.at(channel.last_arrival, [this, from, to, &channel] { arrive(from, to, channel); });
}

void Network::arrive(int from, int to, Channel& channel) {
  const Letter letter = std::move(channel.letters.front());
  channel.letters.pop_front();
  if (channel.letters.size() < channel.lost) return;
  for (int copy = 0; copy < letter.copies; ++copy) deliver_(from, to, letter.message, letter.sent);
}

void Network::lose_some_from(int rank) {
  for (auto& [ends, channel] : channels_) {
    if (ends.first != rank) continue;
    channel.lost =
        static_cast<std::size_t>(below(world_.random, static_cast<int>(channel.letters.size()) + 1));
  }
}

Time Network::delay(int from, int to) {
  const Pace& pace = world_.scenario.pace;
  const bool is_inside = topology_.host_of(from) == topology_.host_of(to);
  Time time = (is_inside ? pace.inside : pace.between) + below(world_.random, pace.jitter);
  if (pace.spikes_of != 0 && below(world_.random, pace.spikes_of) == 0) time += Pace::kSpike;
  return time;
}

}  // namespace hora::simulation
