#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/request.h"
#include "negotiation/cache.h"
#include "negotiation/message.h"
#include "negotiation/negotiator.h"

namespace hora::fuzz {

// What targets and the program that makes their first inputs have in common.

inline constexpr std::uint32_t kSampleTensors = 3;
inline constexpr std::int32_t kSampleSet = 1;

/// The `number`th tensor, from 1 on.
[[nodiscard]] Request sample_request(std::uint32_t number);
/// Where the sample tensors have ids.
[[nodiscard]] Cache cache_with_samples();

/// Ranks 0 to 4 in a tree of arity 2: 0 has the children 1 and 2, and 1 has 3 and 4.
[[nodiscard]] Negotiator make_negotiator(int rank);

/// A step of the target `negotiator`, as its first byte says.
enum class Step : std::uint8_t { kSubmit, kMessage, kCut, kJoin, kLeave, kWait };
inline constexpr std::size_t kSteps = 6;

}  // namespace hora::fuzz
