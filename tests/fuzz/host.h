#pragma once

#include <cstddef>
#include <cstdint>

namespace hora::fuzz {

// What the target `host` and the program that makes its first inputs have in common.

/// What the rest of an input is.
enum class HostPart : std::uint8_t {
  kInvitation,  ///< what a rank hears of the leader instead of an invitation
  kLeader,      ///< what the leader does on the connection of a rank that it has invited well
  kMember,      ///< what another rank does on its connection to the leader, once it has greeted it
  kOffset,      ///< where memory of another rank's heap is said to lie
};
inline constexpr std::size_t kHostParts = 4;

/// A step of a leader or member, as its first byte says.
enum class HostStep : std::uint8_t {
  kSay,         ///< a text
  kHear,        ///< a number of bytes
  kHandEvents,  ///< a number of descriptors
  kHandProcesses,
  kHandFiles,
};
inline constexpr std::size_t kHostSteps = 5;
inline constexpr int kMostAtOnce = 600;

}  // namespace hora::fuzz
