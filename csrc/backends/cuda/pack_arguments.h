#pragma once

// What a launch of a packing kernel is told, and how its work is divided. Compiled by nvcc, by NVRTC and by
// the compiler of the host, hence nothing but the language (C++17).

// HORA_DEVICE is code of a kernel; HORA_DEVICE_CALL stays a function there, which several kernels or places
// call; HORA_DEVICE_LOOP is a loop that compilers are not to unroll. What is compiled for a dozen
// architectures must be small.
#ifdef __CUDACC__
#define HORA_DEVICE __device__ __forceinline__
#define HORA_DEVICE_CALL __device__ __noinline__
#define HORA_DEVICE_LOOP _Pragma("unroll 1")
#else
#define HORA_DEVICE inline
#define HORA_DEVICE_CALL inline
#define HORA_DEVICE_LOOP
#endif

namespace hora::cuda {

inline constexpr int kPackThreads = 256;

/// What one block of threads moves: elements whose larger side, source or destination, has so many bytes. Two
/// rounds of four 16-byte accesses by each thread: enough bytes in flight, and enough blocks for every
/// multiprocessor where a few megabytes are packed.
inline constexpr int kPackBlockBytes = 2 * 4 * 16 * kPackThreads;

/// The elements of one tensor. A fill has an 8-byte pattern in the place of the address `from`.
struct PackPiece {
  const void* from;
  void* to;
  long long count;
  long long first_block;  ///< its blocks go on until the next piece's first
};

/// The only parameter of a kernel. What follows the last piece is not looked at.
template <int kCapacity>
struct PackArguments {
  static constexpr int kMaxPieces = kCapacity;

  double scale;       ///< floats are multiplied by it, integers after their division
  long long divisor;  ///< integers are divided by it first, truncated toward zero
  long long piece_count;
  PackPiece pieces[kCapacity];
};

/// Parameters may take 4096 bytes; 32,764 from CUDA 12.1 on.
using SmallPackArguments = PackArguments<127>;
using LargePackArguments = PackArguments<1022>;
static_assert(sizeof(PackPiece) == 32, "host and device agree");
static_assert(sizeof(SmallPackArguments) == 4088, "within what any driver takes");
static_assert(sizeof(LargePackArguments) == 32728, "within what newer drivers take");

/// The last piece that begins at or before `block`. There are as many blocks as pieces have, so it holds it.
HORA_DEVICE int find_piece(const PackPiece* pieces, long long piece_count, long long block) {
  int first = 0;
  int end = static_cast<int>(piece_count);
  while (end - first > 1) {
    const int middle = (first + end) / 2;
    if (pieces[middle].first_block <= block) {
      first = middle;
    } else {
      end = middle;
    }
  }
  return first;
}

}  // namespace hora::cuda
