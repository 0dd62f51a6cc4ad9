#pragma once

#include <cstddef>

// What the machine allows at best, in C so that the Python benchmarks can load it, too. Every figure of a
// collective is read beside these two: they differ from one minute to the next where virtual cores move.

extern "C" {

/// How long a store of one rank takes to reach another that spins on it, in us: the median of several batches
/// of round trips, halved. Two ranks call it at the same time, one as side 0 and one as side 1, with the same
/// memory of 128 bytes, zero at first, shared and aligned to 64 bytes; each must pass the same number. NaN
/// when the other side does not answer for a second.
double hora_bench_one_way_us(void* shared, int side, int round_trips);

/// Reads and writes an array once, which an allreduce in place cannot do without.
void hora_bench_read_and_write(float* data, std::size_t count);
}
