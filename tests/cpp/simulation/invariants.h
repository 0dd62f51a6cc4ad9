#pragma once

#include <string>
#include <vector>

#include "simulation/history.h"

namespace hora::simulation {

/// What is wrong with what happened; nothing if all is as it must be.
using Findings = std::vector<std::string>;

/// All ranks run the same batches in one order, each those of its sets; ranks that failed, a beginning of
/// them.
[[nodiscard]] Findings find_different_orders(const History& history);

/// Every batch is made of calls that belong together, of as many contributors as it says; nothing runs that
/// ranks have described differently, and no error lacks a reason.
[[nodiscard]] Findings find_wrong_batches(const History& history);

/// Whoever is not told otherwise, waits only for calls that some rank really has not made; and the call that
/// the scenario withholds waits for exactly the ranks that withhold it.
[[nodiscard]] Findings find_forgotten_calls(const Scenario& scenario, const History& history);

/// Where some calls wait for ever, the root tells of all of them, and for exactly which ranks each waits.
[[nodiscard]] Findings find_untold_stalls(const History& history);

/// No batch that a living rank has begun stays unfinished.
[[nodiscard]] Findings find_endless_batches(const History& history);

/// When a rank crashes or fails, all others know within the time that messages take.
[[nodiscard]] Findings find_waits_on_the_dead(const Scenario& scenario, const History& history);

/// When a rank leaves, all ranks depart for the same reason and say goodbye.
[[nodiscard]] Findings find_stragglers(const History& history);

/// All of the above.
[[nodiscard]] Findings find_all(const Scenario& scenario, const History& history);

}  // namespace hora::simulation
