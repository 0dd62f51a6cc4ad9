// The loop of every kernel, compiled once for each instruction set like lanes-inl.h.
//
// A pass goes through memory once. For four vectors of elements at a time it loads the first source, combines
// it with all others while the sums stay in registers, rounds, and writes the result to every destination.
// What lies before the first cache line of the destination and after the last four vectors is done vector by
// vector, an incomplete vector through a buffer, so that there is no scalar code that could round
// differently.

#if defined(HORA_COLLECTIVES_PASS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HORA_COLLECTIVES_PASS_INL_H
#undef HORA_COLLECTIVES_PASS_INL_H
#else
#define HORA_COLLECTIVES_PASS_INL_H
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "collectives/lanes-inl.h"
#include "collectives/pass.h"

HWY_BEFORE_NAMESPACE();
namespace hora {
namespace HWY_NAMESPACE {

inline constexpr std::size_t kCacheLine = 64;

template <typename T>
HWY_INLINE bool is_aligned(const T* at, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(at) % bytes == 0;
}

/// Reads elements of format `From`, combines them with `Op` and writes them in format `To`, whose lanes are
/// the same. Multiplies by the factors of the pass only if `kIsScaled`: to multiply by 1 would quiet a NaN.
template <class From, class To, class Op, bool kIsScaled>
class Loop {
 public:
  explicit Loop(const Pass& pass) : pass_(pass) {}

  void run() const {
    std::size_t at = std::min(pass_.count, elements_before_line());
    finish(0, at);
    at = blocks(at);
    finish(at, pass_.count);
    if (streams()) hwy::FlushStream();
  }

 private:
  using Lane = typename From::Lane;
  using D = hn::ScalableTag<Lane>;
  using V = hn::Vec<D>;
  using In = typename From::Stored;
  using Out = typename To::Stored;
  using DIn = Like<In, D>;
  using DOut = Like<Out, D>;
  using Packed = hn::Vec<DOut>;

  static constexpr std::size_t kLanes = hn::MaxLanes(D());
  static constexpr std::size_t kVectorBytes = kLanes * sizeof(Out);
  static constexpr bool kCanStream = kVectorBytes >= 16;

  static HWY_INLINE const In* input(const std::byte* data, std::size_t at) {
    return reinterpret_cast<const In*>(data) + at;
  }
  static HWY_INLINE Out* output(const Destination& destination, std::size_t at) {
    return reinterpret_cast<Out*>(destination.data) + at;
  }

  static HWY_INLINE V scaled(V lanes, V factor) {
    if constexpr (kIsScaled) return hn::Mul(lanes, factor);
    return lanes;
  }

  static HWY_INLINE V load(const In* at, V before) {
    return scaled(From::unpack(D(), hn::LoadU(DIn(), at)), before);
  }

  static HWY_INLINE Packed result(V lanes, V after) { return To::pack(D(), scaled(lanes, after)); }

  [[nodiscard]] bool streams() const {
    return kCanStream && std::ranges::find(pass_.destinations, Store::kStreaming, &Destination::store) !=
                             pass_.destinations.end();
  }

  /// How far the first streaming destination, or without one the first, is from its next cache line.
  [[nodiscard]] std::size_t elements_before_line() const {
    auto leading = std::ranges::find(pass_.destinations, Store::kStreaming, &Destination::store);
    if (leading == pass_.destinations.end()) leading = pass_.destinations.begin();
    const auto address = reinterpret_cast<std::uintptr_t>(leading->data);
    return (kCacheLine - address % kCacheLine) % kCacheLine / sizeof(Out);
  }

  /// Reduces whole blocks of four vectors from element `at` on; where the remainder begins.
  [[nodiscard]] std::size_t blocks(std::size_t at) const {
    const V before = hn::Set(D(), static_cast<Lane>(pass_.before));
    const V after = hn::Set(D(), static_cast<Lane>(pass_.after));
    for (; at + 4 * kLanes <= pass_.count; at += 4 * kLanes) {
      const In* from = input(pass_.sources.front(), at);
      V first = load(from, before);
      V second = load(from + kLanes, before);
      V third = load(from + 2 * kLanes, before);
      V fourth = load(from + 3 * kLanes, before);
      for (std::size_t source = 1; source < pass_.sources.size(); ++source) {
        from = input(pass_.sources[source], at);
        first = Op::combine(first, load(from, before));
        second = Op::combine(second, load(from + kLanes, before));
        third = Op::combine(third, load(from + 2 * kLanes, before));
        fourth = Op::combine(fourth, load(from + 3 * kLanes, before));
      }
      write(at, result(first, after), result(second, after), result(third, after), result(fourth, after));
    }
    return at;
  }

  HWY_INLINE void write(std::size_t at, Packed first, Packed second, Packed third, Packed fourth) const {
    const DOut d;
    for (const Destination& destination : pass_.destinations) {
      Out* to = output(destination, at);
      if (kCanStream && destination.store == Store::kStreaming && is_aligned(to, kVectorBytes)) {
        hn::Stream(first, d, to);
        hn::Stream(second, d, to + kLanes);
        hn::Stream(third, d, to + 2 * kLanes);
        hn::Stream(fourth, d, to + 3 * kLanes);
      } else {
        hn::StoreU(first, d, to);
        hn::StoreU(second, d, to + kLanes);
        hn::StoreU(third, d, to + 2 * kLanes);
        hn::StoreU(fourth, d, to + 3 * kLanes);
      }
    }
  }

  /// Reduces the elements from `at` to `end`, vector by vector.
  HWY_NOINLINE void finish(std::size_t at, std::size_t end) const {
    const V before = hn::Set(D(), static_cast<Lane>(pass_.before));
    const V after = hn::Set(D(), static_cast<Lane>(pass_.after));
    while (at < end) {
      const std::size_t length = std::min(kLanes, end - at);
      V lanes = load_some(input(pass_.sources.front(), at), length, before);
      for (std::size_t source = 1; source < pass_.sources.size(); ++source)
        lanes = Op::combine(lanes, load_some(input(pass_.sources[source], at), length, before));
      HWY_ALIGN Out packed[kLanes];
      hn::StoreU(result(lanes, after), DOut(), packed);
      for (const Destination& destination : pass_.destinations)
        std::memcpy(output(destination, at), packed, length * sizeof(Out));
      at += length;
    }
  }

  static HWY_INLINE V load_some(const In* from, std::size_t length, V before) {
    if (length >= kLanes) return load(from, before);
    HWY_ALIGN In padded[kLanes] = {};
    std::memcpy(padded, from, length * sizeof(In));
    return load(padded, before);
  }

  const Pass pass_;
};

}  // namespace HWY_NAMESPACE
}  // namespace hora
HWY_AFTER_NAMESPACE();

#endif  // guard of one target
