#include "base/faults.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <iterator>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace hora {
namespace {

constexpr std::array<std::string_view, kFaultPoints> kPoints{
    "after_agreement", "in_batch", "before_completion", "before_message", "in_allocation", "in_departure"};
constexpr std::array<std::string_view, 6> kActions{"kill", "stop", "delay", "drop", "corrupt", "fail"};

constexpr int kMostRank = 1 << 24;
constexpr std::uint64_t kMostHits = 1'000'000'000;
constexpr double kMostSeconds = 1'000'000;

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  raise(ErrorKind::kInvalidArgument, "HORA_FAULTS: '{}': {}", text, why);
}

/// Cuts off what comes before the next separator, or all.
std::string_view take_part(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

template <typename Word, std::size_t kCount>
Word parse_word(std::string_view text, std::string_view word, const char* what,
                const std::array<std::string_view, kCount>& known) {
  const auto found = std::ranges::find(known, word);
  if (found == known.end())
    refuse(text, fmt::format("'{}' is no {}; expected one of {}", word, what, join(known, ", ")));
  return static_cast<Word>(found - known.begin());
}

template <typename Number>
Number parse_number(std::string_view text, std::string_view number, const char* what, Number least,
                    Number most) {
  Number value{};
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc{} && end == number.data() + number.size() && value >= least && value <= most)
    return value;
  refuse(text, fmt::format("'{}' is no {}; expected {} to {}", number, what, least, most));
}

/// Only a message can be dropped or changed, and only an allocation can fail.
void check_place(const Fault& fault) {
  const bool is_of_message = fault.action == FaultAction::kDrop || fault.action == FaultAction::kCorrupt;
  if (is_of_message && fault.point != FaultPoint::kBeforeMessage)
    refuse(fault.text, "drop and corrupt are for messages: before_message");
  if (fault.action == FaultAction::kFail && fault.point != FaultPoint::kInAllocation)
    refuse(fault.text, "fail is for allocations: in_allocation");
}

Fault parse_fault(std::string_view text) {
  if (std::ranges::count(text, ':') != 3) refuse(text, "expected POINT:RANK:HIT:ACTION");
  std::string_view rest = text;
  Fault fault{.text = std::string(text)};
  fault.point = parse_word<FaultPoint>(text, take_part(rest, ':'), "point", kPoints);
  fault.rank = parse_number(text, take_part(rest, ':'), "rank", 0, kMostRank);
  fault.hit = parse_number(text, take_part(rest, ':'), "number of a hit", std::uint64_t{1}, kMostHits);
  const bool has_value = rest.find('=') != std::string_view::npos;
  fault.action = parse_word<FaultAction>(text, take_part(rest, '='), "action", kActions);
  if (has_value != (fault.action == FaultAction::kDelay))
    refuse(text, "delay, and it alone, has a value: delay=SECONDS");
  if (has_value) {
    const std::chrono::duration<double> seconds(parse_number(text, rest, "delay", 0.0, kMostSeconds));
    fault.delay = std::chrono::duration_cast<Duration>(seconds);
  }
  check_place(fault);
  return fault;
}

}  // namespace

std::vector<Fault> parse_faults(std::string_view text) {
  std::vector<Fault> faults;
  for (;;) {
    const bool is_last = text.find(',') == std::string_view::npos;
    faults.push_back(parse_fault(take_part(text, ',')));
    if (is_last) return faults;
  }
}

std::string to_string(std::span<const Fault> faults) {
  std::vector<std::string> texts;
  std::ranges::transform(faults, std::back_inserter(texts), &Fault::text);
  return join(texts, ",");
}

Faults::Faults(std::span<const Fault> all, int rank, int size) {
  for (const Fault& fault : all) {
    if (fault.rank >= size) refuse(fault.text, fmt::format("the job has the ranks 0 to {}", size - 1));
    if (fault.rank == rank) own_.push_back(fault);
  }
}

std::optional<FaultAction> Faults::count(FaultPoint point) {
  const std::uint64_t hit = ++hits_[static_cast<std::size_t>(point)];
  std::optional<FaultAction> left;
  for (const Fault& fault : own_) {
    if (fault.point != point || fault.hit != hit) continue;
    log_warning(fmt::format("HORA_FAULTS: {}", fault.text));
    if (fault.action == FaultAction::kKill) {
      ::kill(getpid(), SIGKILL);
    } else if (fault.action == FaultAction::kStop) {
      ::kill(getpid(), SIGSTOP);
    } else if (fault.action == FaultAction::kDelay) {
      std::this_thread::sleep_for(fault.delay);
    } else {
      left = fault.action;
    }
  }
  return left;
}

}  // namespace hora
