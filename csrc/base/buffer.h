#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

#include "base/error.h"

#ifdef __SANITIZE_ADDRESS__
#define HORA_LSAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HORA_LSAN
#endif
#endif
#ifdef HORA_LSAN
#include <sanitizer/lsan_interface.h>
#endif

namespace hora {

/// Working memory that grows to the largest size asked for and is then used again; its content is undefined
/// after each call. Fresh memory costs a page fault per page, so it is never given back while its owner
/// lives.
class Buffer {
 public:
  /// Throws Error(kSessionFailed) when there is not so much: the other ranks are at the batch already.
  [[nodiscard]] std::span<std::byte> at_least(std::size_t bytes) {
    if (bytes > capacity_) {
      capacity_ = 0;
      memory_.reset();
      memory_.reset(new (std::nothrow) std::byte[bytes]);
      if (memory_ == nullptr)
        raise(ErrorKind::kSessionFailed, "{} bytes of working memory cannot be had", bytes);
      capacity_ = bytes;
    }
    return {memory_.get(), bytes};
  }

  /// Leaves the memory to whoever may still write to it, for good.
  void abandon() {
    [[maybe_unused]] const std::byte* const abandoned = memory_.release();
#ifdef HORA_LSAN
    __lsan_ignore_object(abandoned);
#endif
    capacity_ = 0;
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_ = 0;
};

}  // namespace hora
