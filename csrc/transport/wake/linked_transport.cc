#include "transport/wake/linked_transport.h"

#include <fmt/format.h>

#include <utility>

#include "base/event.h"
#include "base/log.h"
#include "base/text.h"

namespace hora {
namespace {

// A look at a connection costs about as much as one after messages.
constexpr unsigned kReceivesPerLook = 64;

}  // namespace

LinkedTransport::LinkedTransport(std::unique_ptr<Transport> below, LinkOptions options)
    : below_(std::move(below)), options_(std::move(options)), bell_(make_event()) {}

void LinkedTransport::expect_from(std::span<const int> peers) {
  LinkAttempt attempt = connect_links(*below_, peers, options_);
  if (!attempt.missing.empty())
    log_info(
        fmt::format("messages are looked for every now and then, because no connection to rank {} could "
                    "be made that wakes this one",
                    join(attempt.missing, ", ")));
  links_.emplace(std::move(attempt.made), attempt.missing.empty());
}

void LinkedTransport::post(int peer, Bytes message) {
  below_->post(peer, std::move(message));
  if (links_) links_->count_posted(peer);
}

bool LinkedTransport::receive(Incoming& incoming) {
  const bool has_come = below_->receive(incoming);
  if (!links_) return has_come;
  if (has_come) {
    links_->count_received(incoming.peer);
  } else if (++looks_in_vain_ % kReceivesPerLook == 0) {
    links_->look();
  }
  return has_come;
}

/// The same protocol as in ShmTransport, whose flag other processes read as well.
void LinkedTransport::sleep(Duration at_most) {
  asleep_.store(true);
  if (!nudged_.exchange(false)) {
    links_ ? links_->sleep(bell_.get(), at_most) : await_event(bell_.get(), at_most);
  }
  asleep_.store(false);
}

void LinkedTransport::nap(Duration at_most) {
  await_event(bell_.get(), at_most);
  if (links_) links_->look();
}

void LinkedTransport::nudge() {
  nudged_.store(true);
  if (asleep_.load()) wake();
}

void LinkedTransport::stay_up() {
  if (asleep_.exchange(false)) wake();
}

std::optional<Loss> LinkedTransport::take_loss() {
  const std::optional<int> ended = links_ ? links_->take_ended() : std::nullopt;
  if (!ended) return std::nullopt;
  return Loss{*ended, "it ended without notice, or the connection to it was cut"};
}

void LinkedTransport::close_in_child() {
  bell_ = Descriptor();
  if (links_) links_->close_in_child();
}

void LinkedTransport::wake() {
  ring_event(bell_.get());
}

std::unique_ptr<Transport> with_links(std::unique_ptr<Transport> below, LinkOptions options) {
  if (below->topology().size() == 1) return below;
  return std::make_unique<LinkedTransport>(std::move(below), std::move(options));
}

}  // namespace hora
