#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/bytes.h"
#include "negotiation/message.h"

namespace hora {

// What messages of several kinds consist of.

ByteWriter begin_message(MessageKind kind);
ByteReader body_of(std::span<const std::byte> message, MessageKind expected);
void write_key(ByteWriter& out, const Key& key);
Key read_key(ByteReader& in);
void write_text_and_rank(ByteWriter& out, int rank, const std::string& text);
int read_rank(ByteReader& in);

}  // namespace hora
