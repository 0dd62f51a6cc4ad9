#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/descriptor.h"

namespace hora {

/// An unnamed file whose memory several processes map. It has no name anywhere, so nothing of it is left when
/// the last process has ended, however it ended.
///
/// The file is as long as anyone may ever need and has holes; only what `reserve` has filled may be touched.
/// So running out of memory is an error of `reserve`, never a signal on access.
class Segment {
 public:
  /// In anonymous memory, or in `directory`, which has to be on a tmpfs, unless that is empty. Throws
  /// Error(kStartup).
  [[nodiscard]] static Segment create(std::size_t bytes, const std::string& directory);
  /// The same file in another process.
  [[nodiscard]] static Segment open(Descriptor file, std::size_t bytes);

  /// The same mapping, for a descriptor of the same file.
  [[nodiscard]] Segment with_file(Descriptor file) const;

  [[nodiscard]] int file() const { return file_.get(); }
  /// Only what is mapped remains.
  void close_file() { file_ = Descriptor(); }
  [[nodiscard]] std::byte* data() const { return memory_.get(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  /// Makes sure that there is memory behind this range. Throws Error(kStartup) with the bytes needed and
  /// free.
  void reserve(std::size_t first, std::size_t bytes) const;

 private:
  Segment(Descriptor file, std::size_t bytes, std::shared_ptr<std::byte> memory);

  Descriptor file_;
  std::size_t bytes_;
  std::shared_ptr<std::byte> memory_;
};

}  // namespace hora
