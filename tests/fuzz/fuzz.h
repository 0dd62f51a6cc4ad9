#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/exception.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace hora::fuzz {

/// What a target does with an input. The only exception that may leave it is Error; whatever else happens,
/// the fuzzer reports.
void take(std::span<const std::byte> input);

/// For what must hold whatever the input was.
inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace hora::fuzz
