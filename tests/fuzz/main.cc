// The entry that libFuzzer calls with every input.

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    hora::fuzz::take(std::as_bytes(std::span(data, size)));
  } catch (const hora::Error&) {
    return 0;
  }
  return 0;
}
