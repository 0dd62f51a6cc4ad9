#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/config.h"
#include "transport/transport.h"

namespace hora {

/// Makes sure that all ranks of a job bring the same values; all of them call it, before anything depends on
/// these. Where they do not, throws Error(kStartup) on all ranks alike, with a table of what differs.
///
/// Costs a few small messages per rank however many values and ranks there are: only a digest is compared.
/// The values travel when that differs.
void require_same(Transport& transport, const std::vector<NamedValue>& own, Duration timeout);

/// The values as they travel.
[[nodiscard]] Bytes encode_values(const std::vector<NamedValue>& values);
/// Throws Error(kSessionFailed) for what cannot have been written.
[[nodiscard]] std::vector<NamedValue> decode_values(std::span<const std::byte> bytes);

/// The table: a line for each value of each name about which ranks differ. The index in `of_ranks` is the
/// rank.
[[nodiscard]] std::string describe_differences(std::span<const std::vector<NamedValue>> of_ranks);

}  // namespace hora
