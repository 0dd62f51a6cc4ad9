#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/stall_times.h"
#include "core/batch.h"
#include "negotiation/cache.h"
#include "negotiation/fusion.h"
#include "negotiation/members.h"
#include "negotiation/message.h"
#include "negotiation/tree.h"

namespace hora {

struct NegotiatorOptions {
  FusionOptions fusion;
  std::uint64_t cache_capacity = 0;
  bool joins_like_horovod = false;  ///< see the setting HORA_JOIN_RULE
  /// How a batch moves its data inside a host; asked at the root.
  std::function<Route(const Batch& batch)> choose_route = [](const Batch&) { return Route{}; };
  StallTimes stalls = {};
  /// Where this rank made a call that is under way, such as "train.py:41"; empty: not known.
  std::function<std::string(const Key& key)> caller_of = [](const Key&) { return std::string(); };
};

/// Agreement as a state machine: announcements in, one sequence of batches out, the same on every rank.
///
/// Announcements travel up the tree: a node tells its parent about a tensor once, when every rank of its
/// subtree has announced it. What ranks sent differently is kept apart with their rank lists, so that an
/// error can say who sent what; before, the root asks a rank of each kind where it made the call. The root
/// puts what is ready everywhere into plans, which travel down unchanged; a node relays a plan before its own
/// rank runs any of it, and its state changes when the plan passes, never when the engine gets to it. An
/// error waits for all ranks like any batch, so that a late first call is never paired with the others'
/// second call.
///
/// A process set is an attribute of a request: its tensors are ready when its members have announced them,
/// and its plans go down only the branches with members. All sets share one sequence, so ranks of several
/// sets can never wait for each other in a circle. A rank that has joined counts as having announced every
/// tensor of the global set; a batch says how many ranks contribute to it.
///
/// What stands still is told upwards: a node that has waited too long for some ranks of its subtree passes on
/// which have made the call, and the root knows who is missing. It can ask ranks what they are doing.
///
/// No threads, no clock, no I/O: call `on_*`, then send and run what `take_outputs` returns.
class Negotiator {
 public:
  Negotiator(Tree tree, NegotiatorOptions options);

  /// This rank announces a call; says whether it has a small id. A key must not be announced again before its
  /// batch has come out.
  bool on_submit(const Request& request);

  /// This rank contributes nothing more to tensors of the global set until all ranks have joined; then a
  /// batch of the op join comes out.
  void on_join();

  /// This rank leaves the job in order.
  void on_leave(const std::string& reason);

  /// This rank cannot go on: all others are told.
  void on_failure(const Failure& failure);

  /// A thread of this rank waits for an announced call on a device: the root no longer holds it back.
  void on_wait(const Key& key);

  /// The device of this rank, the first of a process set without the root, is through with batches of that
  /// set. The root then knows how busy the set's devices are.
  void on_through(const Through& through);

  /// A message from a neighbour in the tree. Throws Error(kSessionFailed), which names the neighbour, for one
  /// that cannot be read or cannot be meant.
  void on_message(int peer, std::span<const std::byte> message);

  /// Root only: whether there is anything to plan. The caller cuts when its engine is free, so that what
  /// becomes ready while a batch runs travels together in the next plan. Calls on devices are held back as
  /// `may_plan` says; the root's own device is not through with `unfinished` batches. The devices of a set
  /// without the root are as busy as its first rank has told.
  [[nodiscard]] bool can_cut(std::size_t unfinished = 0) const;
  void cut(std::size_t unfinished = 0);
  /// Root only: whether a rank leaves, which is not planned yet.
  [[nodiscard]] bool has_departure() const { return departure_.has_value(); }
  /// Root only: whether errors are to be planned; they can come while no message does.
  [[nodiscard]] bool has_errors() const { return !closed_ && !errors_.empty(); }
  /// Root only: whether something is ready and only held back.
  [[nodiscard]] bool holds_back() const { return !closed_ && !ready_.empty(); }

  /// Time passes; `waits`: calls of this rank have not been agreed. Called every `tick` while any call is
  /// under way.
  void on_tick(TimePoint now, bool waits);
  [[nodiscard]] Duration tick() const;
  /// Root only: whether ranks are still missing for a call that was told of.
  [[nodiscard]] bool is_stalled(const Key& key) const;
  [[nodiscard]] bool is_waiting() const { return !pending_.empty() || !joined_.empty() || awaits_callers(); }
  /// Root only: whether ranks that were asked have still to tell where they made a call.
  [[nodiscard]] bool awaits_callers() const { return !disagreements_.empty(); }
  /// Root only: asks ranks what they are doing.
  void ask(const Question& question);
  void on_answer(const Answer& answer);
  /// This rank has been at a batch for long.
  void on_lasting(const LastingBatch& batch);

  /// This rank has ended its part, after the plan with a departure came out.
  void say_goodbye();
  /// Whether all ranks have said goodbye. Until then none may end, so a rank that does is lost.
  [[nodiscard]] bool all_have_departed() const { return all_have_departed_; }
  [[nodiscard]] std::span<const int> neighbours() const { return neighbours_; }

  struct Outgoing {
    int peer;
    Bytes message;
  };
  /// What stands still, as far as this rank has to do with it.
  struct Stalls {
    std::vector<StalledCall> calls;     ///< root: to be told now
    bool is_over = false;               ///< root: the time after which the job fails has passed
    std::vector<LastingBatch> batches;  ///< root
    std::vector<Answer> answers;        ///< root
    std::optional<Question> question;   ///< this rank is asked
    std::optional<int> silent_parent;   ///< does not answer
    std::uint64_t silent_seconds = 0;
    std::size_t more_calls = 0;  ///< than are listed
    void add(Stalls&& more);
    [[nodiscard]] bool is_empty() const {
      return calls.empty() && batches.empty() && answers.empty() && !question && !silent_parent;
    }
  };
  struct Outputs {
    std::vector<Outgoing> messages;
    std::vector<Plan> plans;
    std::optional<Failure> failure;
    Stalls stalls;
  };
  [[nodiscard]] Outputs take_outputs();

  [[nodiscard]] const Cache& cache() const { return cache_; }

 private:
  /// Who announced: this rank itself, or all ranks below one child.
  using Source = std::size_t;  ///< number of the child
  static constexpr Source kSelf = static_cast<Source>(-1);

  /// One signature announced for a tensor. Rank lists are made only when signatures differ, so that the cost
  /// of a normal announcement does not grow with the number of ranks.
  struct Seen {
    SharedSignature signature;
    std::vector<Source> sources;  ///< whose ranks all sent it
    RankSet ranks;                ///< further ranks that sent it
  };

  /// What the ranks of this subtree have announced so far about one tensor.
  struct Pending {
    std::uint32_t id = 0;    ///< not 0 while all contributions came under this id
    std::vector<Seen> seen;  ///< empty while they did
    std::vector<Source> heard;
    int contributors = 0;
    bool is_waited_for = false;
    TimePoint since;                              ///< a tick after the first contribution
    bool is_told = false;                         ///< that it has waited too long
    std::unordered_map<Source, RankSet> partial;  ///< what only some ranks of a source have announced
  };

  using PendingCalls = std::unordered_map<Key, Pending>;

  [[nodiscard]] static Seen& seen_of(Pending& pending, const SharedSignature& signature);
  Pending& pending_of(const Key& key, std::uint32_t id);
  [[nodiscard]] PendingCalls::node_type new_node();
  void finish(PendingCalls::iterator call);
  void take(int peer, std::span<const std::byte> message);
  void receive(Source child, const Announcement& announcement);
  void receive_join(Source child, int rank);
  void pass_departure(Source child, Departure departure);
  void count_contribution(const Key& key, Pending& pending, Source source, int contributors);
  void join(Source source, int rank);
  void complete_what_waited();
  void send_announcements();
  [[nodiscard]] bool is_complete(const Key& key, const Pending& pending) const;
  [[nodiscard]] bool has_joined(Source source) const;
  void complete(const Key& key, const Pending& pending);
  void complete_at_root(const Key& key, const Pending& pending);
  [[nodiscard]] const SharedSignature& signature_of(const Pending& pending) const;
  [[nodiscard]] int divisor(const Key& key, const Pending& pending) const;
  [[nodiscard]] bool is_disagreement(const Pending& pending) const;
  [[nodiscard]] std::string find_error(const Key& key, const Pending& pending) const;
  [[nodiscard]] std::vector<Variant> variants_of(const Key& key, const Pending& pending) const;
  [[nodiscard]] RankSet ranks_of(Source source, const Pending& pending, const Members& members) const;
  [[nodiscard]] RankSet contributors_of(const Key& key, const Pending& pending) const;
  [[nodiscard]] std::vector<int> absent_from(const Key& key, const Pending& pending) const;

  /// Root only: a call about which ranks disagree, whose error waits for answers.
  struct Disagreement {
    BatchEntry entry;
    std::vector<Variant> variants;
    RankSet asked;
    std::map<int, std::string> callers;  ///< by rank, of those that have answered
    TimePoint since;                     ///< a tick after the question
  };
  using Disagreements = std::map<std::uint32_t, Disagreement>;
  void ask_for_callers(BatchEntry entry, std::vector<Variant> variants);
  void relay(const CallerQuestion& question);
  void on_caller(CallerAnswer answer);
  void end_late_disagreements(TimePoint now);
  void end_disagreements();
  Disagreements::iterator end_disagreement(Disagreements::iterator disagreement);
  void send_towards(const RankSet& ranks, const Bytes& message);

  /// What children have told of a call that not all of their ranks have made.
  struct Reported {
    OpKind op;
    std::uint64_t seconds;
    TimePoint since;  ///< a tick after the last report; not set before
    std::unordered_map<Source, RankSet> made_by;
  };
  [[nodiscard]] std::uint64_t look_for_stalls(TimePoint now);
  [[nodiscard]] std::vector<StalledCall> stalled_calls(TimePoint now) const;
  [[nodiscard]] RankSet made_by(const Key& key) const;
  [[nodiscard]] RankSet missing_from(const StalledCall& call) const;
  void tell_parent(TimePoint now, bool waits, bool is_stalled);
  void tell_at_root(TimePoint now, std::uint64_t oldest_seconds);
  void take_report(Source child, const std::vector<StalledCall>& calls);
  void relay(const Question& question);
  [[nodiscard]] Duration patience() const { return options_.stalls.patience(); }

  [[nodiscard]] std::int32_t load_of(std::int32_t process_set) const;
  [[nodiscard]] std::vector<std::int32_t> held_back_loads(std::size_t unfinished) const;
  [[nodiscard]] bool is_held_back(const ReadyCall& call, const std::vector<std::int32_t>& loads) const;
  void count_on_devices(const Plan& plan);
  void plan_set(std::int32_t process_set, std::vector<ReadyCall> ready, std::vector<Batch> errors);
  void assign_ids(Plan& plan);
  void decide_set_change(Batch& batch);
  [[nodiscard]] Batch join_batch();
  void pass_down(std::size_t child, const Bytes& message);
  void pass_plan(Plan plan, const Bytes& encoded);
  void pass_goodbye();
  void depart_with_all();
  void receive_goodbye(int peer);
  void apply_set_change(const Batch& batch);
  [[nodiscard]] Source child_number(int peer) const;
  void require_parent(int peer) const;
  [[nodiscard]] const Members& members_of(std::int32_t process_set) const;

  const Tree tree_;
  const NegotiatorOptions options_;
  std::vector<int> neighbours_;
  Cache cache_;
  PendingCalls pending_;
  std::vector<PendingCalls::node_type> spare_;  // kept for their memory
  std::vector<Announcement> announcements_;     // for the parent
  std::vector<Key> waited_for_;                 // for the parent, behind their announcements
  std::vector<ReadyCall> ready_;                // root only
  std::vector<Batch> errors_;                   // root only
  Disagreements disagreements_;                 // root only
  std::uint32_t disagreement_ = 0;              // root only: number of the last
  bool is_waited_for_ = false;                  // root only: something that is ready
  std::unordered_map<std::int32_t, Members> sets_;
  std::unordered_map<std::int32_t, std::size_t>
      unfinished_;                      // root only: batches on devices, by sets without it
  std::int32_t last_set_ = kGlobalSet;  // root only
  std::uint64_t batches_ = 0;           // root only: planned so far
  std::vector<int> joined_;             // ranks of this subtree, in the order in which they joined
  bool self_joined_ = false;
  std::vector<int> joined_below_;       // by child
  std::optional<Departure> departure_;  // root only, until it is planned
  bool closed_ = false;                 // a departure or a failure has passed
  bool failed_ = false;                 // a failure has passed
  bool departs_ = false;                // this rank has said goodbye
  std::vector<Source> departed_;        // children whose whole subtrees have
  bool all_have_departed_ = false;
  std::unordered_map<Key, Reported> reported_;
  bool has_news_ = false;
  TimePoint waits_since_;   // calls of this rank
  TimePoint joined_since_;  // or since the last plan
  TimePoint next_report_;
  bool asks_parent_ = false;  // since the last tick
  TimePoint asked_parent_;    // and not been answered yet
  TimePoint next_silence_;    // when it may be told again
  TimePoint first_stall_;     // root: since the last notice
  TimePoint next_notice_;     // root
  Outputs outputs_;
};

}  // namespace hora
