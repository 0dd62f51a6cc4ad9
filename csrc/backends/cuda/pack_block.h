#pragma once

// The work of one block of threads of a packing kernel. Compiled by nvcc, NVRTC and the compiler of the host,
// where tests run it thread by thread.
//
// A block finds its piece, and its share of the piece's elements. The threads then move *chunks*, as many
// elements as fill 16 bytes on the side where elements are larger, chunk t by thread t, t + 256 and so on.
// Each thread loads four chunks before it stores the first. Chunks begin where both addresses are aligned to
// them; the elements before (the *head*) and after (the *tail*) go one by one. Where the two addresses are
// never aligned together, all elements go one by one; plain bytes then go by the widest word that is aligned
// on both sides.

#include "backends/cuda/pack_elements.h"

namespace hora::cuda::pack {

template <typename T, int kLanes>
struct alignas(kLanes * sizeof(T)) Chunk {
  T lanes[kLanes];
};

// One access on a GPU. The host's compiler could not know that chunks lie over elements.

template <typename T, int kLanes>
HORA_DEVICE Chunk<T, kLanes> load(const T* at) {
#ifdef __CUDACC__
  return *reinterpret_cast<const Chunk<T, kLanes>*>(at);
#else
  Chunk<T, kLanes> chunk;
  __builtin_memcpy(&chunk, at, sizeof(chunk));
  return chunk;
#endif
}

template <typename T, int kLanes>
HORA_DEVICE void store(T* at, const Chunk<T, kLanes>& chunk) {
#ifdef __CUDACC__
  *reinterpret_cast<Chunk<T, kLanes>*>(at) = chunk;
#else
  __builtin_memcpy(at, &chunk, sizeof(chunk));
#endif
}

/// Tells the compiler of a GPU what it cannot see behind a call; accesses to global memory are faster.
template <typename T>
HORA_DEVICE T* global(T* address) {
#if defined(__CUDACC__) && __CUDACC_VER_MAJOR__ >= 12
  __builtin_assume(__isGlobal(address));
#endif
  return address;
}

HORA_DEVICE int past_boundary(const void* address, int bytes) {
  return static_cast<int>(reinterpret_cast<unsigned long long>(address) % static_cast<unsigned>(bytes));
}

template <int kLanes, typename From, typename To, typename Move>
HORA_DEVICE void move_chunk(const Chunk<From, kLanes>& loaded, To* to, const Move& move) {
  Chunk<To, kLanes> moved;
  for (int lane = 0; lane < kLanes; ++lane) moved.lanes[lane] = move(loaded.lanes[lane]);
  store(to, moved);
}

template <int kLanes, typename From, typename To, typename Move>
HORA_DEVICE void move_chunks(const From* from, To* to, int chunks, int thread, const Move& move) {
  constexpr int kStride = kPackThreads * kLanes;
  int chunk = thread;
  HORA_DEVICE_LOOP
  for (; chunk + 3 * kPackThreads < chunks; chunk += 4 * kPackThreads) {
    const From* first = from + chunk * kLanes;
    To* target = to + chunk * kLanes;
    const auto loaded0 = load<From, kLanes>(first);
    const auto loaded1 = load<From, kLanes>(first + kStride);
    const auto loaded2 = load<From, kLanes>(first + 2 * kStride);
    const auto loaded3 = load<From, kLanes>(first + 3 * kStride);
    move_chunk(loaded0, target, move);
    move_chunk(loaded1, target + kStride, move);
    move_chunk(loaded2, target + 2 * kStride, move);
    move_chunk(loaded3, target + 3 * kStride, move);
  }
  HORA_DEVICE_LOOP
  for (; chunk < chunks; chunk += kPackThreads)
    move_chunk(load<From, kLanes>(from + chunk * kLanes), to + chunk * kLanes, move);
}

/// Moves the head, chunks of `kLanes`, and the tail. Says no when the addresses are never aligned together.
template <int kLanes, typename From, typename To, typename Move>
HORA_DEVICE bool move_aligned(const From* from, To* to, int count, int thread, const Move& move) {
  constexpr int kFromBytes = kLanes * sizeof(From);
  constexpr int kToBytes = kLanes * sizeof(To);
  const int past = past_boundary(to, kToBytes) / static_cast<int>(sizeof(To));
  int head = (kLanes - past) % kLanes;
  if (past_boundary(from + head, kFromBytes) != 0) return false;
  if (head > count) head = count;
  const int chunks = (count - head) / kLanes;
  const int tail = head + chunks * kLanes;
  if (thread < head) to[thread] = move(from[thread]);
  move_chunks<kLanes>(from + head, to + head, chunks, thread, move);
  if (thread < count - tail) to[tail + thread] = move(from[tail + thread]);
  return true;
}

/// What the threads of a block share: a run of one piece's elements, at most as many as a block takes.
struct Run {
  const void* from;  ///< or the pattern of a fill
  void* to;
  int count;
};

/// A kernel that converts, scales or divides elements.
template <typename From, typename To, typename Move>
struct Elements {
  static constexpr int kFromBytes = sizeof(From);
  static constexpr int kToBytes = sizeof(To);
  static constexpr int kLanes = 16 / (kFromBytes > kToBytes ? kFromBytes : kToBytes);

  static HORA_DEVICE_CALL void move(Run run, double scale, long long divisor, int thread) {
    const auto* from = static_cast<const From*>(global(run.from));
    auto* to = static_cast<To*>(global(run.to));
    const Move each(scale, divisor);
    if (!move_aligned<kLanes>(from, to, run.count, thread, each))
      move_chunks<1>(from, to, run.count, thread, each);
  }
};

struct Same {
  template <typename T>
  HORA_DEVICE T operator()(T value) const {
    return value;
  }
};

/// A kernel that copies bytes, wherever they lie.
struct Copy {
  static constexpr int kFromBytes = 1;
  static constexpr int kToBytes = 1;

  static HORA_DEVICE_CALL void move(Run run, double, long long, int thread) {
    const auto* from = static_cast<const unsigned char*>(global(run.from));
    auto* to = static_cast<unsigned char*>(global(run.to));
    if (move_aligned<16>(from, to, run.count, thread, Same())) return;
    if (move_aligned<8>(from, to, run.count, thread, Same())) return;
    if (move_aligned<4>(from, to, run.count, thread, Same())) return;
    if (move_aligned<2>(from, to, run.count, thread, Same())) return;
    move_chunks<1>(from, to, run.count, thread, Same());
  }
};

/// A kernel that fills bytes with the 8-byte pattern that is in the place of the source address.
struct Fill {
  static constexpr int kFromBytes = 0;
  static constexpr int kToBytes = 1;

  static HORA_DEVICE_CALL void move(Run run, double, long long, int thread) {
    const auto pattern = reinterpret_cast<unsigned long long>(run.from);
    auto* to = static_cast<unsigned char*>(global(run.to));
    int head = (16 - past_boundary(to, 16)) % 16;
    if (head > run.count) head = run.count;
    const int tail = head + (run.count - head) / 16 * 16;
    const int turn = head % 8 * 8;
    const unsigned long long turned = turn == 0 ? pattern : pattern >> turn | pattern << (64 - turn);
    const Chunk<unsigned long long, 2> chunk{{turned, turned}};
    if (thread < head) to[thread] = byte_of(pattern, thread);
    HORA_DEVICE_LOOP
    for (int at = head + 16 * thread; at < tail; at += 16 * kPackThreads)
      store(reinterpret_cast<unsigned long long*>(to + at), chunk);
    if (thread < run.count - tail) to[tail + thread] = byte_of(pattern, tail + thread);
  }

 private:
  static HORA_DEVICE unsigned char byte_of(unsigned long long pattern, int place) {
    return static_cast<unsigned char>(pattern >> (place % 8 * 8));
  }
};

/// The part of a launch of `Kernel` that is block `block`'s.
template <typename Kernel, typename Arguments>
HORA_DEVICE Run run_of(const Arguments& arguments, long long block) {
  constexpr int kBytes = Kernel::kFromBytes > Kernel::kToBytes ? Kernel::kFromBytes : Kernel::kToBytes;
  constexpr int kElements = kPackBlockBytes / kBytes;
  const PackPiece& piece = arguments.pieces[find_piece(arguments.pieces, arguments.piece_count, block)];
  const long long first = (block - piece.first_block) * kElements;
  const long long left = piece.count - first;
  return {static_cast<const char*>(piece.from) + first * Kernel::kFromBytes,
          static_cast<char*>(piece.to) + first * Kernel::kToBytes,
          left < kElements ? static_cast<int>(left) : kElements};
}

}  // namespace hora::cuda::pack
