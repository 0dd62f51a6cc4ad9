#pragma once

#include "core/batch.h"
#include "core/rank_set.h"
#include "negotiation/members.h"
#include "negotiation/message.h"

namespace hora {

// Whether a message that could be read can be meant in this job. All throw Error(kSessionFailed).

/// Of a child: the ranks `below` it are part of its subtree, so many of them `members` of the process set.
void require_plausible(const Announcement& announcement, const RankSet& below, int members, int job_size);

/// Ranks for which a child speaks.
void require_below(const RankSet& ranks, const RankSet& below);

/// `members`: the process set of the plan.
void require_plausible(const Plan& plan, const Members& members, int job_size);

}  // namespace hora
