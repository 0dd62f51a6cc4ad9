#include "base/bytes.h"

#include <gmock/gmock.h>

#include <array>
#include <limits>
#include <string>

namespace hora {
namespace {

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

template <typename Read>
std::string error_of(const Bytes& bytes, Read read) {
  ByteReader in(bytes);
  try {
    read(in);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kSessionFailed);
    return error.what();
  }
  return "";
}

TEST(Bytes, values_come_back_in_the_order_they_were_written) {
  ByteWriter out;
  out.fixed(3.25);
  out.text("layer4.weight");
  out.varint(300);
  out.signed_varint(-2);
  out.fixed(true);
  const Bytes bytes = out.take();
  ByteReader in(bytes);
  EXPECT_EQ(in.fixed<double>(), 3.25);
  EXPECT_EQ(in.text(), "layer4.weight");
  EXPECT_EQ(in.varint(), 300u);
  EXPECT_EQ(in.signed_varint(), -2);
  EXPECT_TRUE(in.fixed<bool>());
  EXPECT_TRUE(in.empty());
}

TEST(Bytes, varints_of_every_length_round_trip) {
  for (int bit = 0; bit < 64; ++bit) {
    for (const std::uint64_t value :
         {std::uint64_t{1} << bit, (std::uint64_t{1} << bit) - 1, ~std::uint64_t{0} >> bit}) {
      ByteWriter out;
      out.varint(value);
      const Bytes bytes = out.take();
      ByteReader in(bytes);
      EXPECT_EQ(in.varint(), value);
      EXPECT_TRUE(in.empty()) << value;
    }
  }
}

TEST(Bytes, signed_varints_of_every_length_round_trip) {
  using Limits = std::numeric_limits<std::int64_t>;
  for (int bit = 0; bit < 63; ++bit) {
    const std::int64_t power = std::int64_t{1} << bit;
    for (const std::int64_t value :
         {power, -power, power - 1, 1 - power, Limits::min() + power, Limits::max() - power}) {
      ByteWriter out;
      out.signed_varint(value);
      const Bytes bytes = out.take();
      ByteReader in(bytes);
      EXPECT_EQ(in.signed_varint(), value);
      EXPECT_TRUE(in.empty()) << value;
    }
  }
}

TEST(Bytes, small_numbers_take_one_byte) {
  for (const std::int64_t value : {0, 1, -1, 63, -64}) {
    ByteWriter out;
    out.signed_varint(value);
    EXPECT_EQ(out.take().size(), 1u) << value;
  }
}

TEST(Bytes, text_may_hold_any_byte) {
  std::string text;
  for (int value = 0; value < 256; ++value) text.push_back(static_cast<char>(value));
  ByteWriter out;
  out.text(text);
  out.text("");
  const Bytes bytes = out.take();
  ByteReader in(bytes);
  EXPECT_EQ(in.text(), text);
  EXPECT_EQ(in.text(), "");
}

TEST(Bytes, a_value_cut_short_is_an_error_that_says_how_much_is_missing) {
  EXPECT_THAT(error_of(bytes_of({1, 2, 3}), [](ByteReader& in) { return in.fixed<double>(); }),
              testing::HasSubstr("5 bytes missing"));
}

TEST(Bytes, a_number_that_does_not_end_is_an_error) {
  const auto read = [](ByteReader& in) { return in.varint(); };
  EXPECT_NE(error_of(bytes_of({0x80}), read), "");
  EXPECT_THAT(error_of(Bytes(11, std::byte{0xff}), read), testing::HasSubstr("does not end"));
}

TEST(Bytes, a_length_beyond_the_message_is_an_error_before_anything_is_allocated) {
  ByteWriter out;
  out.varint(std::uint64_t{1} << 60);
  const Bytes bytes = out.take();
  EXPECT_NE(error_of(bytes, [](ByteReader& in) { return in.length(); }), "");
  EXPECT_NE(error_of(bytes, [](ByteReader& in) { return in.text(); }), "");
}

TEST(Bytes, a_value_beyond_those_of_its_enumeration_is_an_error) {
  enum class Colour : std::uint8_t { kRed, kGreen };
  const auto read = [](ByteReader& in) { return in.one_of<Colour>(2); };
  EXPECT_EQ(error_of(bytes_of({0}), read), "");
  EXPECT_EQ(error_of(bytes_of({1}), read), "");
  EXPECT_NE(error_of(bytes_of({2}), read), "");
  EXPECT_NE(error_of(bytes_of({255}), read), "");
}

TEST(Bytes, reading_an_empty_message_is_an_error) {
  EXPECT_NE(error_of({}, [](ByteReader& in) { return in.varint(); }), "");
  EXPECT_NE(error_of({}, [](ByteReader& in) { return in.fixed<std::uint8_t>(); }), "");
  EXPECT_NE(error_of({}, [](ByteReader& in) { return in.text(); }), "");
}

TEST(Bytes, a_number_above_what_it_may_be_is_an_error) {
  ByteWriter out;
  out.varint(1000);
  const Bytes bytes = out.take();
  EXPECT_EQ(error_of(bytes, [](ByteReader& in) { return in.up_to(1000); }), "");
  EXPECT_THAT(error_of(bytes, [](ByteReader& in) { return in.up_to(999); }),
              testing::HasSubstr("1000 is above 999"));
}

TEST(Bytes, a_number_that_does_not_fit_into_its_type_is_an_error) {
  for (const std::int64_t value : {std::int64_t{1} << 31, -(std::int64_t{1} << 31) - 1}) {
    ByteWriter out;
    out.signed_varint(value);
    const Bytes bytes = out.take();
    EXPECT_NE(error_of(bytes, [](ByteReader& in) { return in.signed_number<std::int32_t>(); }), "");
    EXPECT_EQ(error_of(bytes, [](ByteReader& in) { return in.signed_number<std::int64_t>(); }), "");
  }
}

TEST(Bytes, what_is_left_at_the_end_is_an_error) {
  const auto read_one = [](ByteReader& in) {
    static_cast<void>(in.varint());
    in.end();
    return 0;
  };
  EXPECT_EQ(error_of(bytes_of({1}), read_one), "");
  EXPECT_THAT(error_of(bytes_of({1, 2, 3}), read_one), testing::HasSubstr("2 bytes too many"));
}

}  // namespace
}  // namespace hora
