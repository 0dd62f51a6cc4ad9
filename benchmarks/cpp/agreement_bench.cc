// What one agreed call costs all ranks together, without any transport: the negotiators of all ranks run in
// one thread, and messages wait in one queue. "per_rank" is the share of one rank. Names are known already,
// as in every training step but the first.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "negotiation/negotiator.h"
#include "ops/table.h"

namespace hora {
namespace {

constexpr int kArity = 16;
constexpr int kRanksPerHost = 16;
constexpr int kCalls[] = {1, 100};

class Job {
 public:
  explicit Job(int size) {
    const std::vector<int> hosts(static_cast<std::size_t>((size + kRanksPerHost - 1) / kRanksPerHost),
                                 std::min(size, kRanksPerHost));
    const NegotiatorOptions options{{64u << 20, 64u << 20, fusable_ops()}, 65536};
    for (int rank = 0; rank < size; ++rank)
      negotiators_.emplace_back(Tree(Topology::split(rank, size, hosts), kArity), options);
  }

  /// Every rank announces the calls; returns when the plans have passed all ranks.
  void agree(const std::vector<Request>& requests) {
    for (std::size_t rank = 0; rank < negotiators_.size(); ++rank) {
      for (const Request& request : requests) negotiators_[rank].on_submit(request);
      collect(rank);
    }
    do {
      for (; !under_way_.empty(); under_way_.pop_front()) {
        const Letter letter = std::move(under_way_.front());
        negotiators_[letter.to].on_message(letter.from, letter.message);
        collect(letter.to);
      }
    } while (cut());
  }

  [[nodiscard]] std::size_t planned() const { return planned_; }

 private:
  struct Letter {
    int from;
    std::size_t to;
    Bytes message;
  };

  bool cut() {
    if (!negotiators_.front().can_cut()) return false;
    negotiators_.front().cut();
    collect(0);
    return true;
  }

  void collect(std::size_t rank) {
    Negotiator::Outputs outputs = negotiators_[rank].take_outputs();
    for (Negotiator::Outgoing& outgoing : outputs.messages)
      under_way_.push_back(
          {static_cast<int>(rank), static_cast<std::size_t>(outgoing.peer), std::move(outgoing.message)});
    for (const Plan& plan : outputs.plans) {
      for (const Batch& batch : plan.batches) planned_ += batch.entries.size();
    }
  }

  std::vector<Negotiator> negotiators_;
  std::deque<Letter> under_way_;
  std::size_t planned_ = 0;  // calls that came out, over all ranks
};

std::vector<Request> make_requests(int calls) {
  std::vector<Request> requests;
  for (int call = 0; call < calls; ++call) {
    Signature signature;
    signature.tensors = {{DType::kFloat32, {1000}}};
    const std::size_t bytes = signature.bytes();
    requests.push_back({{fmt::format("layer{}.weight", call)}, std::move(signature), bytes});
  }
  return requests;
}

void agreement(benchmark::State& state, int ranks, int calls) {
  Job job(ranks);
  const std::vector<Request> requests = make_requests(calls);
  job.agree(requests);
  const std::size_t before = job.planned();
  for (auto _ : state) job.agree(requests);
  const double agreed = static_cast<double>(job.planned() - before) / ranks;
  if (agreed != static_cast<double>(state.iterations()) * calls) state.SkipWithError("calls are missing");
  state.SetItemsProcessed(static_cast<std::int64_t>(agreed));
  const auto kind = benchmark::Counter::kIsRate | benchmark::Counter::kInvert;
  state.counters["per_call"] = benchmark::Counter(agreed, kind);
  state.counters["per_rank"] = benchmark::Counter(agreed * ranks, kind);
}

void register_all() {
  for (const int ranks : {2, 16, 256}) {
    for (const int calls : kCalls)
      benchmark::RegisterBenchmark(fmt::format("agreement/ranks:{}/calls:{}", ranks, calls).c_str(),
                                   agreement, ranks, calls);
  }
}

[[maybe_unused]] const bool kRegistered = (register_all(), true);

}  // namespace
}  // namespace hora
