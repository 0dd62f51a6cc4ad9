#include "simulation/invariants.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>

#include "base/text.h"
#include "simulation/simulation.h"

namespace hora::simulation {
namespace {

bool are_same(const Batch& one, const Batch& other) {
  const auto same_entry = [](const BatchEntry& entry, const BatchEntry& its) {
    return entry.key == its.key && entry.id == its.id && entry.signature == its.signature;
  };
  return one.error == other.error && one.contributors == other.contributors && one.value == other.value &&
         one.divisor == other.divisor && std::ranges::equal(one.entries, other.entries, same_entry);
}

/// Each batch that some rank ran, by number.
std::map<std::uint64_t, const Batch*> all_batches(const History& history) {
  std::map<std::uint64_t, const Batch*> batches;
  for (const RankRecord& rank : history.ranks) {
    for (const Run& run : rank.runs) batches.emplace(run.batch.number, &run.batch);
  }
  return batches;
}

bool is_cut_short(const RankRecord& rank) {
  return rank.is_dead || rank.failure.has_value();
}

std::string describe(const Batch& batch) {
  return fmt::format("{} ({})", batch.number, join(testing::describe_batches({batch}), ""));
}

/// Ranks that one entry of a batch is made of, over all ranks that ran it.
struct Gathered {
  std::vector<std::size_t> submissions;
  std::vector<int> absent;
  std::vector<int> not_submitted;
  std::size_t ran = 0;
};

using Gatherings = std::map<std::uint64_t, std::vector<Gathered>>;  // by batch, then by entry

Gatherings gather(const History& history) {
  Gatherings gatherings;
  for (int rank = 0; rank < static_cast<int>(history.ranks.size()); ++rank) {
    for (const Run& run : history.ranks[static_cast<std::size_t>(rank)].runs) {
      std::vector<Gathered>& entries = gatherings[run.batch.number];
      entries.resize(std::max(entries.size(), run.parts.size()));
      for (std::size_t entry = 0; entry < run.parts.size(); ++entry) {
        Gathered& gathered = entries[entry];
        ++gathered.ran;
        const std::size_t submission = run.parts[entry].submission;
        if (submission == Part::kAbsent) {
          gathered.absent.push_back(rank);
        } else if (submission == Part::kNotSubmitted) {
          gathered.not_submitted.push_back(rank);
        } else {
          gathered.submissions.push_back(submission);
        }
      }
    }
  }
  return gatherings;
}

/// Whether some rank gave a reason to refuse the call.
bool deserves_error(const History& history, const CallRecord& call, const Gathered& gathered) {
  const SharedSignature& first = history.submissions[call.submissions.front()].signature;
  const bool differ = std::ranges::any_of(call.submissions, [&](std::size_t each) {
    const SharedSignature& signature = history.submissions[each].signature;
    return signature != first || !signature->refusal.empty();
  });
  const bool lacks_root = first->op == OpKind::kBroadcast &&
                          std::ranges::binary_search(gathered.absent, static_cast<int>(first->root));
  return differ || lacks_root;
}

std::string find_wrong_entry(const History& history, const Batch& batch, std::size_t entry,
                             const Gathered& gathered) {
  if (!gathered.not_submitted.empty())
    return fmt::format("ranks {} have not submitted it", RankSet(gathered.not_submitted).to_string());
  if (batch.signature().op == OpKind::kJoin || gathered.submissions.empty()) return {};
  const std::size_t call = history.submissions[gathered.submissions.front()].call;
  for (const std::size_t submission : gathered.submissions) {
    if (history.submissions[submission].call != call)
      return fmt::format("calls of different times are put together: {}", history.calls[call].to_string());
  }
  const bool is_error = !batch.error.empty();
  if (is_error != deserves_error(history, history.calls[call], gathered))
    return is_error ? "an error without a reason: " + batch.error : "ranks have described it differently";
  if (is_error) return {};
  for (const std::size_t submission : gathered.submissions) {
    if (history.submissions[submission].signature != batch.entries[entry].signature)
      return fmt::format("rank {} has described it differently", history.submissions[submission].rank);
  }
  const auto contributors = static_cast<std::size_t>(batch.contributors);
  const bool all_ran = gathered.ran == history.sets.at(batch.process_set()).size();
  if (all_ran ? gathered.submissions.size() != contributors : gathered.submissions.size() > contributors)
    return fmt::format("it says {} contributors, but {} contribute", contributors,
                       gathered.submissions.size());
  return {};
}

bool waits(const History& history, std::size_t submission) {
  const Submission& one = history.submissions[submission];
  return one.outcome == Submission::Outcome::kWaiting &&
         !history.ranks[static_cast<std::size_t>(one.rank)].is_dead;
}

std::vector<bool> waiting_ranks(const History& history) {
  std::vector<bool> waiting(history.ranks.size(), false);
  for (std::size_t submission = 0; submission < history.submissions.size(); ++submission) {
    if (waits(history, submission))
      waiting[static_cast<std::size_t>(history.submissions[submission].rank)] = true;
  }
  return waiting;
}

std::vector<int> withholders(const Scenario& scenario) {
  for (const Phase& phase : scenario.phases) {
    for (const Step& step : phase.steps) {
      for (const Call& call : step.calls) {
        if (call.name == "withheld") return call.left_out_by;
      }
    }
  }
  return {};
}

}  // namespace

Findings find_different_orders(const History& history) {
  Findings findings;
  const auto batches = all_batches(history);
  for (std::size_t rank = 0; rank < history.ranks.size(); ++rank) {
    const RankRecord& record = history.ranks[rank];
    auto next = batches.begin();
    const auto skip_others = [&] {
      while (next != batches.end() && !history.is_member(static_cast<int>(rank), next->second->process_set()))
        ++next;
    };
    for (const Run& run : record.runs) {
      skip_others();
      if (next == batches.end() || next->first != run.batch.number) {
        findings.push_back(fmt::format("rank {} runs batch {} where others run {}", rank, describe(run.batch),
                                       next == batches.end() ? "none" : describe(*next->second)));
        break;
      }
      if (!are_same(run.batch, *next->second))
        findings.push_back(
            fmt::format("rank {} has another batch {} than others", rank, describe(run.batch)));
      ++next;
    }
    skip_others();
    if (next != batches.end() && !is_cut_short(record))
      findings.push_back(fmt::format("rank {} never runs batch {}", rank, describe(*next->second)));
  }
  return findings;
}

Findings find_wrong_batches(const History& history) {
  Findings findings;
  const auto batches = all_batches(history);
  for (const auto& [number, entries] : gather(history)) {
    const Batch& batch = *batches.at(number);
    for (std::size_t entry = 0; entry < std::min(entries.size(), batch.entries.size()); ++entry) {
      if (std::string wrong = find_wrong_entry(history, batch, entry, entries[entry]); !wrong.empty())
        findings.push_back(
            fmt::format("batch {}, {}: {}", number, batch.entries[entry].key.to_string(), wrong));
    }
  }
  return findings;
}

Findings find_forgotten_calls(const Scenario& scenario, const History& history) {
  Findings findings;
  const std::vector<bool> is_waiting = waiting_ranks(history);
  const std::vector<int> guilty =
      scenario.ending == Ending::kStall ? withholders(scenario) : std::vector<int>{};
  bool is_withheld = false;
  for (const CallRecord& call : history.calls) {
    if (std::ranges::none_of(call.submissions, [&](std::size_t each) { return waits(history, each); }))
      continue;
    const std::vector<int> missing = history.missing(call);
    const std::string text =
        fmt::format("{} waits for ranks [{}]", call.to_string(), RankSet(missing).to_string());
    if (call.key.name == "withheld") {
      is_withheld = true;
      if (missing != guilty) findings.push_back(text + ", not those that withhold it");
    } else if (guilty.empty() || missing.empty()) {
      findings.push_back(text);
    } else if (!std::ranges::all_of(missing,
                                    [&](int rank) { return is_waiting[static_cast<std::size_t>(rank)]; })) {
      findings.push_back(text + ", which wait for nothing themselves");
    }
  }
  if (!guilty.empty() && !is_withheld) findings.push_back("the call that is withheld does not wait");
  return findings;
}

Findings find_untold_stalls(const History& history) {
  if (history.ended_at) return {};
  std::unordered_map<Key, std::vector<int>> expected;
  for (const CallRecord& call : history.calls) {
    if (std::ranges::any_of(call.submissions, [&](std::size_t each) { return waits(history, each); }))
      expected.emplace(call.key, history.missing(call));
  }
  Findings findings;
  for (const auto& [key, missing] : expected) {
    const auto told = history.told.find(key);
    if (told == history.told.end()) {
      findings.push_back(fmt::format("nobody is told that {} waits", key.to_string()));
    } else if (told->second != missing) {
      findings.push_back(fmt::format("{} is said to wait for ranks [{}], not [{}]", key.to_string(),
                                     RankSet(told->second).to_string(), RankSet(missing).to_string()));
    }
  }
  for (const auto& [key, missing] : history.told) {
    if (!expected.contains(key))
      findings.push_back(fmt::format("{} is said to wait, and does not", key.to_string()));
  }
  return findings;
}

Findings find_endless_batches(const History& history) {
  Findings findings;
  for (std::size_t rank = 0; rank < history.ranks.size(); ++rank) {
    const RankRecord& record = history.ranks[rank];
    if (is_cut_short(record)) continue;
    for (const Run& run : record.runs) {
      if (!run.is_over)
        findings.push_back(
            fmt::format("rank {} never comes to the end of batch {}", rank, describe(run.batch)));
    }
    if (record.unfinished_on_device != 0)
      findings.push_back(
          fmt::format("the device of rank {} never ends {} batches", rank, record.unfinished_on_device));
  }
  return findings;
}

Findings find_waits_on_the_dead(const Scenario& scenario, const History& history) {
  const bool is_sudden = scenario.ending == Ending::kFail || scenario.ending == Ending::kCrash;
  if (!is_sudden || !history.ended_at) return {};
  const bool some_left = std::ranges::any_of(history.ranks, &RankRecord::heard_goodbyes);
  Findings findings;
  const Time latest = *history.ended_at + kDetection + (history.hops + 1) * scenario.pace.longest_message();
  for (std::size_t rank = 0; rank < history.ranks.size(); ++rank) {
    const RankRecord& record = history.ranks[rank];
    if (record.is_dead || some_left) continue;
    if (!record.failure) {
      findings.push_back(fmt::format("rank {} never learns that another cannot go on", rank));
    } else if (record.failed_at > latest) {
      findings.push_back(
          fmt::format("rank {} learns of a failure {} ns late", rank, record.failed_at - latest));
    }
  }
  return findings;
}

Findings find_stragglers(const History& history) {
  if (!history.ended_at || std::ranges::any_of(history.ranks, is_cut_short)) return {};
  Findings findings;
  for (std::size_t rank = 0; rank < history.ranks.size(); ++rank) {
    const RankRecord& record = history.ranks[rank];
    const std::optional<Departure>& first = history.ranks.front().departure;
    if (!record.departure || !first || record.departure->rank != first->rank)
      findings.push_back(fmt::format("rank {} does not depart as rank 0 does", rank));
    if (!record.heard_goodbyes)
      findings.push_back(fmt::format("rank {} does not hear that all have said goodbye", rank));
  }
  return findings;
}

Findings find_all(const Scenario& scenario, const History& history) {
  Findings all;
  if (!history.broken.empty()) all.push_back(history.broken);
  for (Findings findings :
       {find_different_orders(history), find_wrong_batches(history), find_forgotten_calls(scenario, history),
        find_untold_stalls(history), find_endless_batches(history), find_waits_on_the_dead(scenario, history),
        find_stragglers(history)})
    std::ranges::move(findings, std::back_inserter(all));
  return all;
}

}  // namespace hora::simulation
