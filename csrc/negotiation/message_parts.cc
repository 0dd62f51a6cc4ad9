#include "negotiation/message_parts.h"

#include "base/error.h"

namespace hora {

ByteWriter begin_message(MessageKind kind) {
  ByteWriter out;
  out.fixed(kind);
  return out;
}

ByteReader body_of(std::span<const std::byte> message, MessageKind expected) {
  ByteReader in(message);
  if (in.one_of<MessageKind>(kMessageKinds) != expected)
    raise(ErrorKind::kSessionFailed, "unexpected control message");
  return in;
}

void write_key(ByteWriter& out, const Key& key) {
  out.text(key.name);
  out.varint(key.number);
  out.signed_varint(key.process_set);
}

Key read_key(ByteReader& in) {
  Key key;
  key.name = in.text();
  key.number = in.varint();
  key.process_set = in.signed_number<std::int32_t>();
  return key;
}

void write_text_and_rank(ByteWriter& out, int rank, const std::string& text) {
  out.varint(static_cast<std::uint64_t>(rank));
  out.text(text);
}

int read_rank(ByteReader& in) {
  return in.up_to(kMostRanks - 1);
}

}  // namespace hora
