#include "transport/shm/shm_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/event.h"
#include "base/last_signal.h"
#include "base/log.h"
#include "transport/wake/links.h"

namespace hora {

ShmTransport::ShmTransport(std::unique_ptr<Transport> below, std::unique_ptr<HostMemory> memory)
    : below_(std::move(below)),
      memory_(std::move(memory)),
      ranks_(topology().ranks_on(topology().host_of(topology().rank()))),
      rank_(memory_->rank()),
      is_one_host_(topology().host_count() == 1),
      hears_others_(!is_one_host_),
      local_rank_of_(static_cast<std::size_t>(topology().size()), -1) {
  for (int peer = 0; peer < memory_->size(); ++peer) {
    local_rank_of_[static_cast<std::size_t>(ranks_[static_cast<std::size_t>(peer)])] = peer;
    writers_.emplace_back(memory_->ring(rank_, peer));
    readers_.emplace_back(memory_->ring(peer, rank_));
  }
}

std::string_view ShmTransport::name() const {
  return is_one_host_ ? "shared memory" : "shared memory and mpi";
}

void ShmTransport::expect_from(std::span<const int> peers) {
  std::vector<int> elsewhere;
  std::ranges::copy_if(peers, std::back_inserter(elsewhere),
                       [this](int peer) { return local_rank_of_[static_cast<std::size_t>(peer)] < 0; });
  below_->expect_from(elsewhere);
  hears_others_ = !elsewhere.empty();
  links_ = hears_others_ ? below_->links() : nullptr;
}

bool ShmTransport::notices_arrivals() const {
  return !hears_others_ || (links_ != nullptr && links_->are_whole());
}

void ShmTransport::post(int peer, Bytes message) {
  const int local = local_rank_of_[static_cast<std::size_t>(peer)];
  if (local < 0) return below_->post(peer, std::move(message));
  writers_[static_cast<std::size_t>(local)].post(message);
  wake_if_asleep(local);
}

/// Either the sleeper sees the message before it sleeps, or we see that it sleeps: both write first, then
/// read, in one order of all such accesses.
void ShmTransport::wake_if_asleep(int local_rank) const {
  if (memory_->board(local_rank).asleep.value.load(std::memory_order_seq_cst) != 0)
    memory_->ring_bell(local_rank);
}

bool ShmTransport::receive(Incoming& incoming) {
  flush_local();
  return take_local(incoming) || (!is_one_host_ && below_->receive(incoming));
}

bool ShmTransport::has_arrivals() const {
  return !is_one_host_ || std::ranges::any_of(readers_, &RingReader::has_cell) ||
         !std::ranges::all_of(writers_, &RingWriter::is_through);
}

bool ShmTransport::take_local(Incoming& incoming) {
  for (std::size_t count = 0; count < readers_.size(); ++count) {
    const std::size_t peer = next_reader_;
    next_reader_ = peer + 1 == readers_.size() ? 0 : peer + 1;
    if (!readers_[peer].receive(incoming.message)) continue;
    incoming.peer = ranks_[peer];
    return true;
  }
  return false;
}

bool ShmTransport::flushed() {
  return flush_local() && below_->flushed();
}

bool ShmTransport::flush_local() {
  bool all = true;
  for (std::size_t peer = 0; peer < writers_.size(); ++peer) {
    if (writers_[peer].is_through()) continue;
    all = writers_[peer].flush() && all;
    wake_if_asleep(static_cast<int>(peer));
  }
  return all;
}

void ShmTransport::sleep(Duration at_most) {
  std::atomic<std::uint64_t>& asleep = memory_->board(rank_).asleep.value;
  asleep.store(1, std::memory_order_seq_cst);
  if (!nudged_.exchange(false) && std::ranges::none_of(readers_, &RingReader::has_cell)) {
    const int watch = memory_->watch().descriptor();
    links_ != nullptr ? links_->sleep(memory_->bell(), at_most, watch)
                      : await_event(memory_->bell(), at_most, watch);
  }
  asleep.store(0, std::memory_order_relaxed);
}

void ShmTransport::nap(Duration at_most) {
  await_event(memory_->bell(), at_most);
  if (links_ != nullptr) links_->look();
}

void ShmTransport::nudge() {
  nudged_.store(true, std::memory_order_seq_cst);
  wake_if_asleep(rank_);
}

/// The sleeper wakes once, to set itself a time; no message will wake it while the flag is down.
void ShmTransport::stay_up() {
  std::atomic<std::uint64_t>& asleep = memory_->board(rank_).asleep.value;
  if (asleep.load(std::memory_order_relaxed) == 0) return;
  asleep.store(0, std::memory_order_relaxed);
  wake();
}

std::optional<Loss> ShmTransport::take_loss() {
  const auto ended = memory_->watch().take_ended();
  if (!ended) return below_->take_loss();
  const auto signal = static_cast<int>(memory_->board(*ended).signal.value.load());
  return Loss{ranks_[static_cast<std::size_t>(*ended)], describe_end(signal)};
}

void ShmTransport::close_in_child() {
  memory_->close_in_child();
  below_->close_in_child();
}

void ShmTransport::wake() {
  memory_->ring_bell(rank_);
}

std::unique_ptr<Transport> with_shared_memory(std::unique_ptr<Transport> below,
                                              const HostMemoryOptions& options) {
  if (below->topology().local_size() == 1) return below;
  HostConnection connection = connect_host(*below, options);
  if (connection.memory == nullptr) {
    const std::string text = fmt::format("the ranks of this host talk over {} instead of shared memory: {}",
                                         below->name(), connection.reason);
    if (options.wanted && below->topology().local_rank() == 0) {
      log_warning(text);  // for all of the host
    } else {
      log_info(text);
    }
    return below;
  }
  return std::make_unique<ShmTransport>(std::move(below), std::move(connection.memory));
}

}  // namespace hora
