// Messages about what stands still, what devices are through with, and where calls were made.

#include <utility>

#include "negotiation/message.h"
#include "negotiation/message_parts.h"

namespace hora {

Bytes encode(const std::vector<StalledCall>& calls) {
  ByteWriter out = begin_message(MessageKind::kStalled);
  out.varint(calls.size());
  for (const StalledCall& call : calls) {
    write_key(out, call.key);
    out.fixed(call.op);
    out.varint(call.seconds);
    call.made_by.write(out);
  }
  return out.take();
}

std::vector<StalledCall> decode_stalled(std::span<const std::byte> message) {
  ByteReader in = body_of(message, MessageKind::kStalled);
  std::vector<StalledCall> calls(in.length());
  for (StalledCall& call : calls) {
    call.key = read_key(in);
    call.op = in.one_of<OpKind>(kOpNames.size());
    call.seconds = in.varint();
    call.made_by = RankSet::read(in);
  }
  in.end();
  return calls;
}

Bytes encode_heard() {
  return begin_message(MessageKind::kHeard).take();
}

Bytes encode(const Question& question) {
  ByteWriter out = begin_message(MessageKind::kQuestion);
  out.varint(question.number);
  question.ranks.write(out);
  return out.take();
}

Question decode_question(std::span<const std::byte> message) {
  ByteReader in = body_of(message, MessageKind::kQuestion);
  Question question;
  question.number = in.up_to(std::numeric_limits<std::uint32_t>::max());
  question.ranks = RankSet::read(in);
  in.end();
  return question;
}

Bytes encode(const Answer& answer) {
  ByteWriter out = begin_message(MessageKind::kAnswer);
  out.varint(answer.question);
  out.varint(answer.batches);
  out.fixed(answer.is_in_batch);
  write_text_and_rank(out, answer.rank, answer.where);
  return out.take();
}

Answer decode_answer(std::span<const std::byte> message) {
  ByteReader in = body_of(message, MessageKind::kAnswer);
  Answer answer;
  answer.question = in.up_to(std::numeric_limits<std::uint32_t>::max());
  answer.batches = in.varint();
  answer.is_in_batch = in.one_of<bool>(2);
  answer.rank = read_rank(in);
  answer.where = in.text();
  in.end();
  return answer;
}

Bytes encode(const LastingBatch& batch) {
  ByteWriter out = begin_message(MessageKind::kLasting);
  out.varint(batch.number);
  out.signed_varint(batch.process_set);
  out.varint(batch.seconds);
  out.text(batch.what);
  return out.take();
}

LastingBatch decode_lasting(std::span<const std::byte> message) {
  ByteReader in = body_of(message, MessageKind::kLasting);
  LastingBatch batch;
  batch.number = in.varint();
  batch.process_set = in.signed_number<std::int32_t>();
  batch.seconds = in.varint();
  batch.what = in.text();
  in.end();
  return batch;
}

Bytes encode(const Through& through) {
  ByteWriter out = begin_message(MessageKind::kThrough);
  out.signed_varint(through.process_set);
  out.varint(through.batches);
  return out.take();
}

Through decode_through(std::span<const std::byte> message) {
  ByteReader in = body_of(message, MessageKind::kThrough);
  Through through;
  through.process_set = in.signed_number<std::int32_t>();
  through.batches = in.varint();
  in.end();
  return through;
}

Bytes encode(const CallerQuestion& question) {
  ByteWriter out = begin_message(MessageKind::kCallerQuestion);
  out.varint(question.number);
  write_key(out, question.key);
  question.ranks.write(out);
  return out.take();
}

CallerQuestion decode_caller_question(std::span<const std::byte> message) {
  ByteReader in = body_of(message, MessageKind::kCallerQuestion);
  CallerQuestion question;
  question.number = in.up_to(std::numeric_limits<std::uint32_t>::max());
  question.key = read_key(in);
  question.ranks = RankSet::read(in);
  in.end();
  return question;
}

Bytes encode(const CallerAnswer& answer) {
  ByteWriter out = begin_message(MessageKind::kCallerAnswer);
  out.varint(answer.question);
  write_text_and_rank(out, answer.rank, answer.where);
  return out.take();
}

CallerAnswer decode_caller_answer(std::span<const std::byte> message) {
  ByteReader in = body_of(message, MessageKind::kCallerAnswer);
  CallerAnswer answer;
  answer.question = in.up_to(std::numeric_limits<std::uint32_t>::max());
  answer.rank = read_rank(in);
  answer.where = in.text();
  in.end();
  return answer;
}

}  // namespace hora
