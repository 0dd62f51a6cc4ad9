#include "simulation/fault.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>

#include "simulation/scenario.h"

namespace hora::simulation {
namespace {

/// Few, so that they are given again often.
constexpr std::uint32_t kShortNames = 3;

/// A rank that has somebody to relay to.
int choose_victim(Fault fault, std::mt19937& random, const std::vector<Tree>& trees) {
  std::vector<int> candidates;
  for (const Tree& tree : trees) {
    if (fault != Fault::kLateRelay || !tree.children().empty()) candidates.push_back(tree.rank());
  }
  return candidates[random() % candidates.size()];
}

/// What the short name of `id` stands for at a node that knows ids up to `last_id`: the last that it was
/// given to.
std::uint32_t meaning_of(std::uint32_t id, std::uint32_t last_id) {
  return last_id - (last_id - id) % kShortNames;
}

}  // namespace

Fault fault_of(std::string_view name) {
  const auto found = std::ranges::find(kFaultNames, name);
  if (found == std::end(kFaultNames)) throw std::invalid_argument("there is no fault " + std::string(name));
  return static_cast<Fault>(found - std::begin(kFaultNames));
}

Saboteur::Saboteur(Fault fault, std::uint32_t seed, const std::vector<Tree>& trees) : fault_(fault) {
  std::mt19937 random(~seed);
  victim_ = choose_victim(fault, random, trees);
  messages_left_ = below(random, static_cast<int>(4 * trees.size()));
}

int Saboteur::copies(const Bytes& message) {
  const MessageKind kind = kind_of(message);
  const bool is_concerned = kind == MessageKind::kAnnounce || kind == MessageKind::kPlan;
  const bool is_due = fault_ == Fault::kLostMessage
                          ? is_concerned
                          : fault_ == Fault::kDoubleCount && kind == MessageKind::kAnnounce;
  if (!is_due || done_ || messages_left_-- > 0) return 1;
  done_ = true;
  return fault_ == Fault::kLostMessage ? 0 : 2;
}

Bytes Saboteur::misread(Bytes message, Naming sent, const Cache& receiver) {
  if (fault_ != Fault::kReusedId || kind_of(message) != MessageKind::kAnnounce) return message;
  std::vector<Announcement> announcements = decode_announcements(message, receiver);
  for (Announcement& announcement : announcements) {
    const bool has_short_name = announcement.id != 0 && announcement.id + kShortNames > sent.last_id;
    if (!has_short_name) continue;
    const std::uint32_t taken_for = meaning_of(announcement.id, receiver.last_id());
    done_ = done_ || taken_for != announcement.id;
    announcement.id = taken_for;
  }
  return encode(announcements);
}

bool Saboteur::swaps(int rank) {
  if (fault_ != Fault::kOrderSwap || done_ || rank != victim_) return false;
  done_ = true;
  return true;
}

}  // namespace hora::simulation
