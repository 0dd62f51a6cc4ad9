#include "engine/exchange.h"

#include <iterator>
#include <utility>

#include "base/error.h"

namespace hora {

Exchange::Exchange(Transport& transport, Negotiator negotiator, Counters& counters, Faults& faults)
    : transport_(transport),
      negotiator_(std::move(negotiator)),
      counters_(counters),
      faults_(faults),
      numbers_(static_cast<std::size_t>(transport.topology().size())) {}

void Exchange::submit(const Request& request) {
  if (request.signature.op == OpKind::kJoin) {
    negotiator_.on_join();
  } else if (negotiator_.on_submit(request)) {
    ++counters_.cache_hits;
  }
}

bool Exchange::step(bool engine_is_free, std::size_t unfinished) {
  bool worked = false;
  Incoming incoming;
  while (transport_.receive(incoming)) {
    negotiator_.on_message(incoming.peer, without_number(incoming));
    worked = true;
  }
  // What is left to run comes before a departure, and the others need not wait for this rank to run it.
  if ((engine_is_free || negotiator_.has_departure()) && negotiator_.can_cut(unfinished)) {
    negotiator_.cut(unfinished);
    worked = true;
  }
  send_outputs();
  return worked;
}

void Exchange::fail(const Failure& why) {
  negotiator_.on_failure(why);
  send_outputs();
}

void Exchange::say_goodbye() {
  negotiator_.say_goodbye();
  send_outputs();
}

void Exchange::pass_time(TimePoint now, bool waits) {
  negotiator_.on_tick(now, waits);
  send_outputs();
}

void Exchange::ask(const Question& question) {
  negotiator_.ask(question);
  send_outputs();
}

void Exchange::answer(const Answer& answer) {
  negotiator_.on_answer(answer);
  send_outputs();
}

void Exchange::tell_of(const LastingBatch& batch) {
  negotiator_.on_lasting(batch);
  send_outputs();
}

std::span<const std::byte> Exchange::without_number(const Incoming& incoming) {
  const std::span<const std::byte> message(incoming.message);
  std::uint8_t& expected = numbers_[static_cast<std::size_t>(incoming.peer)].received;
  if (message.empty() || message.back() != std::byte{expected++}) {
    raise(ErrorKind::kSessionFailed,
          "rank {} sent what cannot be: damaged message, or one before it is missing", incoming.peer);
  }
  return message.first(message.size() - 1);
}

void Exchange::send(Negotiator::Outgoing outgoing) {
  Bytes& message = outgoing.message;
  message.push_back(std::byte{numbers_[static_cast<std::size_t>(outgoing.peer)].sent++});
  ++counters_.messages;
  counters_.message_bytes += message.size();
  const auto fault = faults_.reach(FaultPoint::kBeforeMessage);
  if (fault == FaultAction::kDrop) return;
  if (fault == FaultAction::kCorrupt) message.front() = ~message.front();
  transport_.post(outgoing.peer, std::move(message));
}

void Exchange::send_outputs() {
  Negotiator::Outputs outputs = negotiator_.take_outputs();
  for (Negotiator::Outgoing& outgoing : outputs.messages) send(std::move(outgoing));
  for (Plan& plan : outputs.plans) {
    ++counters_.plans;
    std::ranges::move(plan.batches, std::back_inserter(agreed));
    if (plan.departure) departure = std::move(plan.departure);
  }
  if (outputs.failure && !failure) failure = std::move(outputs.failure);
  if (!outputs.stalls.is_empty()) stalls.add(std::move(outputs.stalls));
}

}  // namespace hora
