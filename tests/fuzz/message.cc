// One message of agreement, as a rank reads it that knows a few tensors.

#include "negotiation/message.h"

#include "fuzz.h"
#include "samples.h"

namespace hora::fuzz {
namespace {

/// What was read is written the same way when it is read and written once more.
template <typename Decode, typename Encode>
void require_stable(std::span<const std::byte> message, const Decode& decode, const Encode& encode) {
  const Bytes once = encode(decode(message));
  require(encode(decode(once)) == once);
}

}  // namespace

void take(std::span<const std::byte> input) {
  const auto encode_any = [](const auto& value) { return encode(value); };
  switch (kind_of(input)) {
    case MessageKind::kAnnounce: {
      const Cache cache = cache_with_samples();
      return require_stable(
          input, [&](auto bytes) { return decode_announcements(bytes, cache); }, encode_any);
    }
    case MessageKind::kPlan: {
      const auto decode = [](auto bytes) {
        Cache cache = cache_with_samples();
        return decode_plan(bytes, cache);
      };
      return require_stable(input, decode, [](const Plan& plan) { return encode(plan, kSampleTensors + 1); });
    }
    case MessageKind::kJoin:
      return require_stable(input, decode_join, encode_join);
    case MessageKind::kWait:
      return require_stable(input, decode_waits, encode_waits);
    case MessageKind::kDepart:
      return require_stable(input, decode_departure, encode_any);
    case MessageKind::kFailure:
      return require_stable(input, decode_failure, encode_any);
    case MessageKind::kGoodbye:
    case MessageKind::kHeard:
      return;
    case MessageKind::kStalled:
      return require_stable(input, decode_stalled, encode_any);
    case MessageKind::kQuestion:
      return require_stable(input, decode_question, encode_any);
    case MessageKind::kAnswer:
      return require_stable(input, decode_answer, encode_any);
    case MessageKind::kLasting:
      return require_stable(input, decode_lasting, encode_any);
    case MessageKind::kThrough:
      return require_stable(input, decode_through, encode_any);
    case MessageKind::kCallerQuestion:
      return require_stable(input, decode_caller_question, encode_any);
    case MessageKind::kCallerAnswer:
      return require_stable(input, decode_caller_answer, encode_any);
  }
}

}  // namespace hora::fuzz
