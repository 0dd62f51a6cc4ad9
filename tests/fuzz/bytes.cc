// Reads of a ByteReader in an order that the input chooses.

#include "base/bytes.h"

#include "fuzz.h"

namespace hora::fuzz {

void take(std::span<const std::byte> input) {
  const std::size_t half = input.size() / 2;
  ByteReader in(input.subspan(half));
  for (const std::byte choice : input.first(half)) {
    switch (static_cast<unsigned>(choice) % 8) {
      case 0:
        static_cast<void>(in.varint());
        break;
      case 1:
        static_cast<void>(in.signed_varint());
        break;
      case 2:
        require(in.text().size() <= input.size());
        break;
      case 3:
        require(in.length() <= input.size());
        break;
      case 4:
        require(in.one_of<std::uint8_t>(7) < 7);
        break;
      case 5:
        require(in.up_to(1000) <= 1000);
        break;
      case 6:
        static_cast<void>(in.fixed<double>());
        break;
      default:
        static_cast<void>(in.signed_number<std::int32_t>());
    }
  }
  in.end();
}

}  // namespace hora::fuzz
