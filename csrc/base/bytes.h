#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/exception.h"

namespace hora {

using Bytes = std::vector<std::byte>;

/// Appends values to a byte string. All processes of a job run the same build on one architecture, so
/// fixed-size values travel in native order; integers that are mostly small travel as LEB128 varints.
class ByteWriter {
 public:
  ByteWriter() { bytes_.reserve(kExpected); }

  template <typename T>
    requires std::is_trivially_copyable_v<T>
  void fixed(const T& value) {
    append(&value, sizeof(T));
  }

  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<std::byte>(value | 0x80));
    bytes_.push_back(static_cast<std::byte>(value));
  }

  /// Zigzag coding, so that small negative numbers stay short.
  void signed_varint(std::int64_t value) {
    varint((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
  }

  void text(std::string_view value) {
    varint(value.size());
    append(value.data(), value.size());
  }

  [[nodiscard]] Bytes take() { return std::move(bytes_); }

  /// What has been written, until the next call.
  [[nodiscard]] std::span<const std::byte> written() const { return bytes_; }

  /// Forgets what has been written and keeps the memory.
  void clear() { bytes_.clear(); }

 private:
  void append(const void* source, std::size_t length) {
    if (length == 0) return;
    bytes_.resize(bytes_.size() + length);
    std::memcpy(bytes_.data() + bytes_.size() - length, source, length);
  }

  // Most messages are shorter.
  static constexpr std::size_t kExpected = 64;

  Bytes bytes_;
};

/// Reads what ByteWriter wrote. Every read is bounds-checked: a damaged message is an error, never a crash.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
    requires std::is_trivially_copyable_v<T>
  [[nodiscard]] T fixed() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  /// A value of an enumeration or bool of one byte, written by `fixed`, which has so many values from 0 on.
  template <typename T>
    requires(sizeof(T) == 1)
  [[nodiscard]] T one_of(std::size_t values) {
    const auto value = static_cast<std::uint8_t>(take(1)[0]);
    if (value >= values) fail(std::to_string(value) + " is not one of " + std::to_string(values) + " values");
    return static_cast<T>(value);
  }

  [[nodiscard]] std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto next = static_cast<std::uint64_t>(take(1)[0]);
      value |= (next & 0x7f) << shift;
      if (next < 0x80) return value;
    }
    fail("a number does not end");
  }

  [[nodiscard]] std::int64_t signed_varint() {
    const std::uint64_t coded = varint();
    return static_cast<std::int64_t>((coded >> 1) ^ (~(coded & 1) + 1));
  }

  /// A number, written as a varint, that is not above `highest`.
  template <std::integral T>
  [[nodiscard]] T up_to(T highest) {
    const std::uint64_t value = varint();
    if (std::cmp_greater(value, highest))
      fail(std::to_string(value) + " is above " + std::to_string(highest));
    return static_cast<T>(value);
  }

  /// A number, written as a signed varint, that fits into the type.
  template <std::signed_integral T>
  [[nodiscard]] T signed_number() {
    const std::int64_t value = signed_varint();
    if (!std::in_range<T>(value)) fail(std::to_string(value) + " is out of range");
    return static_cast<T>(value);
  }

  /// A length that some container will be sized by: at least one byte per element must still be there.
  [[nodiscard]] std::size_t length() {
    const std::uint64_t value = varint();
    if (value > bytes_.size())
      fail("length " + std::to_string(value) + " of " + std::to_string(bytes_.size()) + " bytes");
    return static_cast<std::size_t>(value);
  }

  [[nodiscard]] std::string text() {
    const auto raw = take(length());
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }

  [[nodiscard]] bool empty() const { return bytes_.empty(); }

  /// Nothing may be left.
  void end() const {
    if (!empty()) fail(std::to_string(bytes_.size()) + " bytes too many");
  }

  /// For what is read well and cannot be meant.
  [[noreturn]] static void fail(const std::string& what) {
    throw Error(ErrorKind::kSessionFailed, "damaged message: " + what);
  }

 private:
  std::span<const std::byte> take(std::size_t count) {
    if (count > bytes_.size()) fail(std::to_string(count - bytes_.size()) + " bytes missing");
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }

  std::span<const std::byte> bytes_;
};

}  // namespace hora
