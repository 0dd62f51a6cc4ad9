#pragma once

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "core/request.h"

namespace hora {

/// Small ids for requests that have been agreed before.
///
/// The root gives an id when a request is planned for the first time; every node learns it as that plan
/// passes. A tensor whose shape changes gets a further id and keeps the old one, so alternating shapes stay
/// cached. All unnamed calls of one signature share one id. Ids are never given again: an announcement in
/// flight can therefore never be credited to another tensor.
///
/// Entries live as long as the session and are learnt amid a program's own allocations, so they are kept
/// encoded in memory of their own: spread over the heap, each could keep a freed tensor's memory from being
/// used again.
class Cache {
 public:
  explicit Cache(std::uint64_t capacity) : capacity_(capacity) {}

  struct Known {
    std::int32_t process_set;
    std::string name;  ///< empty for unnamed calls
    Signature signature;
  };

  /// The id under which this request may be announced, or 0.
  [[nodiscard]] std::uint32_t find(const Request& request) const;

  /// What an id means. Throws when this node has not learnt it.
  [[nodiscard]] Known get(std::uint32_t id) const;

  /// Root only: gives a new id, or 0 when the capacity is used up.
  [[nodiscard]] std::uint32_t give(const Key& key, const Signature& signature);

  /// Learns an id from a plan, where it may stand more than once.
  void learn(std::uint32_t id, const Key& key, const Signature& signature);

  /// The highest id given so far.
  [[nodiscard]] std::uint32_t last_id() const { return last_id_; }

 private:
  /// A process set, a name and a signature, encoded.
  using Meaning = std::string_view;

  /// Valid until the next call.
  [[nodiscard]] Meaning encode(const Key& key, const Signature& signature) const;

  std::uint64_t capacity_;
  std::unique_ptr<std::pmr::memory_resource> memory_ =
      std::make_unique<std::pmr::monotonic_buffer_resource>();
  std::uint32_t last_id_ = 0;
  std::pmr::unordered_map<std::uint32_t, Meaning> meanings_{memory_.get()};
  std::pmr::unordered_map<Meaning, std::uint32_t> ids_{memory_.get()};
  mutable ByteWriter scratch_;
};

}  // namespace hora
