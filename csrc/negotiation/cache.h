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
/// Entries live as long as the session and are learnt amid a program's own allocations, so they are kept in
/// memory of their own, and equal signatures only once: spread over the heap, each could keep a freed
/// tensor's memory from being used again.
class Cache {
 public:
  explicit Cache(std::uint64_t capacity) : capacity_(capacity) {}

  struct Known {
    std::int32_t process_set;
    std::string_view name;  ///< empty for unnamed calls; lives as long as the cache
    SharedSignature signature;
  };

  /// The id under which this request may be announced, or 0.
  [[nodiscard]] std::uint32_t find(const Request& request) const;

  /// What an id means. Throws when this node has not learnt it.
  [[nodiscard]] const Known& get(std::uint32_t id) const;

  /// Root only: gives a new id, or 0 when the capacity is used up.
  [[nodiscard]] std::uint32_t give(const Key& key, const SharedSignature& signature);

  /// Learns an id from a plan, where it may stand more than once.
  void learn(std::uint32_t id, const Key& key, const SharedSignature& signature);

  /// The highest id given so far.
  [[nodiscard]] std::uint32_t last_id() const { return last_id_; }

 private:
  /// Bytes that stand for something.
  using Encoded = std::string_view;

  /// A process set, a name and a signature; valid until the next call. The signature comes last, and
  /// `signature_at` says where.
  [[nodiscard]] Encoded encode(const Key& key, const Signature& signature, std::size_t& signature_at) const;
  [[nodiscard]] Encoded keep(Encoded bytes);

  std::uint64_t capacity_;
  std::unique_ptr<std::pmr::memory_resource> memory_ =
      std::make_unique<std::pmr::monotonic_buffer_resource>();
  std::uint32_t last_id_ = 0;
  std::pmr::unordered_map<std::uint32_t, Known> meanings_{memory_.get()};
  std::pmr::unordered_map<Encoded, std::uint32_t> ids_{memory_.get()};
  std::pmr::unordered_map<Encoded, SharedSignature> signatures_{memory_.get()};
  mutable ByteWriter scratch_;
};

}  // namespace hora
