#include "stand_ins/nccl/rendezvous.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <string_view>

#include "base/descriptor.h"

namespace hora::fake_nccl {
namespace {

constexpr std::string_view kPrefix = "hora-fake-nccl-";
constexpr std::size_t kHeaderBytes = 64;

std::size_t ranks_at() {
  return kHeaderBytes;
}

std::size_t channels_at(std::size_t size) {
  return ranks_at() + size * sizeof(RankState);
}

std::size_t slots_at(std::size_t size) {
  const std::size_t end = channels_at(size) + size * size * sizeof(Channel);
  return (end + kSlotBytes - 1) / kSlotBytes * kSlotBytes;
}

std::size_t channel_slots_at(std::size_t size) {
  return slots_at(size) + size * kSlots * kSlotBytes;
}

/// Most of it is never touched and takes no memory.
std::size_t bytes_for(std::size_t size) {
  return channel_slots_at(size) + size * size * kSlots * kChannelSlotBytes;
}

/// Makes the file long enough; it is never made shorter, whatever sizes ranks believe in.
std::byte* map_file(int file, std::size_t bytes) {
  struct stat status{};
  if (fstat(file, &status) != 0) return nullptr;
  if (static_cast<std::size_t>(status.st_size) < bytes && ftruncate(file, static_cast<off_t>(bytes)) != 0)
    return nullptr;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

/// What ranks of this process share. Lives for ever: the last rank may go while the process ends. Lock map:
/// all -> mutex.
struct Meetings {
  std::mutex mutex;
  std::map<std::string, Descriptor> kept;                 ///< those whose ids were made here
  std::map<std::string, std::weak_ptr<Rendezvous>> open;  ///< those where ranks of this process are
};

Meetings& meetings() {
  static auto* const instance = new Meetings;
  return *instance;
}

/// "NAME at PATH".
constexpr std::string_view kAt = " at ";

nccl::UniqueId to_id(const std::string& name, int file) {
  const std::string text = fmt::format("{}{}/proc/{}/fd/{}", name, kAt, getpid(), file);
  nccl::UniqueId id{};
  std::memcpy(id.internal, text.c_str(), text.size());
  return id;
}

/// The file of an id, wherever that was made; none if that process has closed it.
Descriptor open_file(const std::string& id) {
  const std::size_t at = id.find(kAt);
  if (!id.starts_with(kPrefix) || at == std::string::npos) return {};
  Descriptor file(::open(id.c_str() + at + kAt.size(), O_RDWR | O_CLOEXEC));
  if (!file) return {};
  char target[PATH_MAX] = {};
  const std::string link = fmt::format("/proc/self/fd/{}", file.get());
  if (readlink(link.c_str(), target, sizeof(target) - 1) <= 0) return {};
  const bool is_it = std::string_view(target).find(id.substr(0, at)) != std::string_view::npos;
  return is_it ? std::move(file) : Descriptor();
}

}  // namespace

struct Rendezvous::Header {
  std::atomic<std::int32_t> size;
  std::atomic<std::int32_t> joined;
  std::atomic<std::int32_t> living;
};

nccl::UniqueId Rendezvous::new_id() {
  std::random_device random;
  const std::string name = fmt::format("{}{:08x}{:08x}", kPrefix, random(), random());
  Descriptor file(memfd_create(name.c_str(), MFD_CLOEXEC));
  const nccl::UniqueId id = to_id(name, file.get());
  const std::lock_guard lock(meetings().mutex);
  meetings().kept[id.internal] = std::move(file);
  return id;
}

std::shared_ptr<Rendezvous> Rendezvous::open(const nccl::UniqueId& id, int size) {
  const std::string name(id.internal, strnlen(id.internal, sizeof(id.internal)));
  auto& open_here = meetings().open;
  const std::lock_guard lock(meetings().mutex);
  if (auto known = open_here[name].lock()) return known->size() == size ? known : nullptr;

  const Descriptor file = open_file(name);
  if (!file) return nullptr;
  const std::size_t bytes = bytes_for(static_cast<std::size_t>(size));
  std::byte* const memory = map_file(file.get(), bytes);
  if (memory == nullptr) return nullptr;
  auto made = std::make_shared<Rendezvous>(name, size, memory, bytes);
  std::erase_if(open_here, [](const auto& entry) { return entry.second.expired(); });
  open_here[name] = made;
  return made;
}

Rendezvous::Rendezvous(std::string name, int size, std::byte* memory, std::size_t bytes)
    : name_(std::move(name)),
      size_(size),
      number_(std::hash<std::string>{}(name_)),
      memory_(memory),
      bytes_(bytes) {
  static_assert(sizeof(Header) <= kHeaderBytes);
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                std::atomic<Presence>::is_always_lock_free);
}

Rendezvous::~Rendezvous() {
  munmap(memory_, bytes_);
}

bool Rendezvous::join(int rank, std::uint64_t host, const char* bus_id) {
  std::int32_t known_size = 0;
  if (!header().size.compare_exchange_strong(known_size, size_) && known_size != size_) return false;
  RankState& own = this->rank(rank);
  Presence presence = Presence::kAbsent;
  if (!own.presence.compare_exchange_strong(presence, Presence::kJoining)) return false;
  own.host = host;
  std::strncpy(own.bus_id, bus_id, sizeof(own.bus_id) - 1);
  own.presence.store(Presence::kPresent);
  header().living.fetch_add(1);
  if (header().joined.fetch_add(1) + 1 == size_) keep_no_more();
  return true;
}

bool Rendezvous::everyone_joined() const {
  return header().joined.load() == size_;
}

void Rendezvous::leave(int rank, Presence how) {
  this->rank(rank).presence.store(how);
  if (how == Presence::kFinalized) return;
  if (header().living.fetch_sub(1) == 1 || everyone_joined()) keep_no_more();
}

void Rendezvous::keep_no_more() const {
  const std::lock_guard lock(meetings().mutex);
  meetings().kept.erase(name_);
}

Rendezvous::Header& Rendezvous::header() const {
  return *reinterpret_cast<Header*>(memory_);
}

RankState& Rendezvous::rank(int rank) const {
  return reinterpret_cast<RankState*>(memory_ + ranks_at())[rank];
}

Channel& Rendezvous::channel(int from, int to) const {
  return reinterpret_cast<Channel*>(memory_ +
                                    channels_at(static_cast<std::size_t>(size_)))[from * size_ + to];
}

std::byte* Rendezvous::slot(int rank, std::uint64_t piece) const {
  const std::size_t index = static_cast<std::size_t>(rank) * kSlots + piece % kSlots;
  return memory_ + slots_at(static_cast<std::size_t>(size_)) + index * kSlotBytes;
}

std::byte* Rendezvous::channel_slot(int from, int to, std::uint64_t piece) const {
  const std::size_t index = static_cast<std::size_t>(from * size_ + to) * kSlots + piece % kSlots;
  return memory_ + channel_slots_at(static_cast<std::size_t>(size_)) + index * kChannelSlotBytes;
}

}  // namespace hora::fake_nccl
