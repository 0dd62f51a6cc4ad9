#pragma once

#include <span>
#include <string>

#include "negotiation/message.h"

namespace hora {

/// The sentence that every rank gets when ranks announced a tensor differently, or one refused it:
/// "allreduce 'x': rank 3 sent float16[2], ranks 0-2 sent float32[2]". Rare variants come first.
[[nodiscard]] std::string describe_mismatch(const Key& key, std::span<const Variant> variants);

}  // namespace hora
