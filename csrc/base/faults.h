#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace hora {

/// Where a rank can be made to fail.
enum class FaultPoint : std::uint8_t {
  kAfterAgreement,    ///< a batch has been agreed on, and this rank is about to begin with it
  kInBatch,           ///< it waits for others within the batch for the first time, or has not had to
  kBeforeCompletion,  ///< the batch has run, and its calls are not complete
  kBeforeMessage,     ///< a message of agreement is about to be sent
  kInAllocation,      ///< host memory for a large result is about to be taken
  kInDeparture,       ///< the end of the job has been agreed on, and this rank has not said goodbye
};
inline constexpr std::size_t kFaultPoints = 6;

enum class FaultAction : std::uint8_t {
  kKill,
  kStop,
  kDelay,
  kDrop,     ///< a message
  kCorrupt,  ///< a message
  kFail,     ///< an allocation
};

/// What a rank does to itself when it comes to a point for the `hit`th time.
struct Fault {
  FaultPoint point = FaultPoint::kAfterAgreement;
  int rank = 0;
  std::uint64_t hit = 1;
  FaultAction action = FaultAction::kKill;
  Duration delay{};
  std::string text;  ///< as it was written

  bool operator==(const Fault&) const = default;
};

/// Reads "in_batch:1:20:kill,before_message:2:5:delay=0.3". Throws Error(kInvalidArgument), which says what
/// is wrong.
[[nodiscard]] std::vector<Fault> parse_faults(std::string_view text);
[[nodiscard]] std::string to_string(std::span<const Fault> faults);

/// The faults of one rank, for tests of what the others then do. Used by one thread at a time.
class Faults {
 public:
  Faults() = default;
  /// Throws Error(kInvalidArgument) when one is of a rank that the job has not.
  Faults(std::span<const Fault> all, int rank, int size);

  /// This rank has come to a point. Does what is due there, all but what only the caller can do, which it
  /// returns: kDrop, kCorrupt or kFail.
  std::optional<FaultAction> reach(FaultPoint point) { return own_.empty() ? std::nullopt : count(point); }

 private:
  std::optional<FaultAction> count(FaultPoint point);

  std::vector<Fault> own_;
  std::array<std::uint64_t, kFaultPoints> hits_{};
};

}  // namespace hora
