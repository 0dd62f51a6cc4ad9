#pragma once

/// Instruction sets for which no kernels are made, because one that is made serves their processors as well;
/// to be included before Highway's headers. Better numbers are smaller: what comes before AVX3 (AVX-512) adds
/// nothing that kernels use. Every processor in use that has SSSE3 has SSE4. The length of SVE's vectors is
/// not known when compiling; NEON's reach the bandwidth of memory too.
#define HWY_DISABLED_TARGETS ((HWY_AVX3 - 1) | HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
