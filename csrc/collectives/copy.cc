// Copies with ordinary and with streaming stores.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "collectives/kernels.h"

// clang-format off: this order is Highway's
#include "collectives/vector_targets.h"
#define HWY_TARGET_INCLUDE "collectives/copy.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <hwy/cache_control.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hora {
namespace HWY_NAMESPACE {

/// Copies whole groups of four vectors to an aligned destination; how many bytes that were.
std::size_t stream_vectors(const std::uint8_t* from, std::uint8_t* to, std::size_t bytes) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<std::uint8_t> d;
  constexpr std::size_t kVector = hn::MaxLanes(hn::ScalableTag<std::uint8_t>());
  if constexpr (kVector < 16) return 0;
  std::size_t at = 0;
  for (; at + 4 * kVector <= bytes; at += 4 * kVector) {
    const auto first = hn::LoadU(d, from + at);
    const auto second = hn::LoadU(d, from + at + kVector);
    const auto third = hn::LoadU(d, from + at + 2 * kVector);
    const auto fourth = hn::LoadU(d, from + at + 3 * kVector);
    hn::Stream(first, d, to + at);
    hn::Stream(second, d, to + at + kVector);
    hn::Stream(third, d, to + at + 2 * kVector);
    hn::Stream(fourth, d, to + at + 3 * kVector);
  }
  return at;
}

}  // namespace HWY_NAMESPACE
}  // namespace hora
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hora {

HWY_EXPORT(stream_vectors);

void copy(const std::byte* source, std::byte* destination, std::size_t bytes, Store store) {
  constexpr std::size_t kCacheLine = 64;
  if (bytes == 0) return;
  if (store == Store::kCached) {
    std::memcpy(destination, source, bytes);
    return;
  }
  const std::size_t past_line = reinterpret_cast<std::uintptr_t>(destination) % kCacheLine;
  const std::size_t head = std::min(bytes, (kCacheLine - past_line) % kCacheLine);
  std::memcpy(destination, source, head);
  const std::size_t end = head + HWY_DYNAMIC_DISPATCH(stream_vectors)(
                                     reinterpret_cast<const std::uint8_t*>(source + head),
                                     reinterpret_cast<std::uint8_t*>(destination + head), bytes - head);
  std::memcpy(destination + end, source + end, bytes - end);
  hwy::FlushStream();
}

}  // namespace hora
#endif
