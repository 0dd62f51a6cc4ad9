#pragma once

/// Instruction sets for which no kernels are made; to be included before Highway's headers. Every processor
/// with SSSE3 that is still in use has SSE4, and NEON's vectors, whose length is known when compiling, reach
/// the bandwidth of memory too.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
