#include "engine/exchange.h"

#include <iterator>
#include <utility>

namespace hora {

Exchange::Exchange(Transport& transport, Negotiator negotiator, Counters& counters)
    : transport_(transport), negotiator_(std::move(negotiator)), counters_(counters) {}

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
    negotiator_.on_message(incoming.peer, incoming.message);
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

void Exchange::send_outputs() {
  Negotiator::Outputs outputs = negotiator_.take_outputs();
  for (Negotiator::Outgoing& outgoing : outputs.messages) {
    ++counters_.messages;
    counters_.message_bytes += outgoing.message.size();
    transport_.post(outgoing.peer, std::move(outgoing.message));
  }
  for (Plan& plan : outputs.plans) {
    ++counters_.plans;
    std::ranges::move(plan.batches, std::back_inserter(agreed));
    if (plan.departure) departure = std::move(plan.departure);
  }
  if (outputs.failure && !failure) failure = std::move(outputs.failure);
  if (!outputs.stalls.is_empty()) stalls.add(std::move(outputs.stalls));
}

}  // namespace hora
