#include "core/request.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

Signature unusual_signature() {
  return {.op = OpKind::kBroadcast,
          .dtype = DType::kBFloat16,
          .device = DeviceKind::kCuda,
          .reduce = ReduceOp::kProduct,
          .root = 32767,
          .process_set = -1,
          .prescale = 0.1,
          .postscale = -1e300,
          .shape = {Signature::kRagged, 0, std::int64_t{1} << 40},
          .refusal = "no such dtype: complex64"};
}

Bytes encoded(const Signature& signature) {
  ByteWriter out;
  signature.write(out);
  return out.take();
}

TEST(Signature, every_field_survives_the_wire) {
  const Bytes bytes = encoded(unusual_signature());
  ByteReader in(bytes);
  EXPECT_EQ(Signature::read(in), unusual_signature());
  EXPECT_TRUE(in.empty());
}

TEST(Signature, one_cut_short_anywhere_is_an_error) {
  const Bytes bytes = encoded(unusual_signature());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    ByteReader in(std::span<const std::byte>(bytes).first(length));
    EXPECT_THROW(static_cast<void>(Signature::read(in)), Error) << length;
  }
}

TEST(Signature, a_byte_that_is_no_value_of_its_field_is_an_error) {
  constexpr std::size_t kEnumerations = 4;  // op, dtype, device and reduce op come first
  for (std::size_t at = 0; at < kEnumerations; ++at) {
    Bytes bytes = encoded(unusual_signature());
    bytes[at] = std::byte{200};
    ByteReader in(bytes);
    EXPECT_THROW(static_cast<void>(Signature::read(in)), Error) << "byte " << at;
  }
}

TEST(Signature, equal_ones_hash_alike) {
  EXPECT_EQ(std::hash<Signature>()(unusual_signature()), std::hash<Signature>()(unusual_signature()));
}

TEST(Key, tells_named_from_unnamed_calls) {
  EXPECT_EQ((Key{"layer4.weight", 0}).to_string(), "'layer4.weight'");
  EXPECT_EQ((Key{"", 12}).to_string(), "unnamed call 12");
  EXPECT_NE((Key{"", 1}), (Key{"", 2}));
}

}  // namespace
}  // namespace hora
