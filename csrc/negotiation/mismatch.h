#pragma once

#include <map>
#include <span>
#include <string>

#include "negotiation/message.h"

namespace hora {

/// The ranks whose place in the program the table tells: the first of each group that it shows.
[[nodiscard]] RankSet ranks_to_ask(std::span<const Variant> variants);

/// What every rank gets when ranks announced a tensor differently, or one refused it. A sentence that says in
/// what they differ, and a table with a row for each group of ranks that agree, rare ones first:
///
///     allreduce 'x': ranks differ in dtype
///       ranks  dtype    called at
///       3      float16  train.py:57
///       0-2    float32  train.py:41
///
/// Of many groups the rarest and the largest are shown. `callers`: where ranks made the call, as far as
/// known.
[[nodiscard]] std::string describe_mismatch(const Key& key, std::span<const Variant> variants,
                                            const std::map<int, std::string>& callers = {});

}  // namespace hora
