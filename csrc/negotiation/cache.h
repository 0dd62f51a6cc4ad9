#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/request.h"

namespace hora {

/// Small ids for requests that have been agreed before.
///
/// The root gives an id when a request is planned for the first time; every node learns it as that plan
/// passes. A tensor whose shape changes gets a further id and keeps the old one, so alternating shapes stay
/// cached. All unnamed calls of one signature share one id. Ids are never given again: an announcement in
/// flight can therefore never be credited to another tensor.
class Cache {
 public:
  explicit Cache(std::uint64_t capacity) : capacity_(capacity) {}

  struct Known {
    std::string name;  ///< empty for unnamed calls
    Signature signature;
  };

  /// The id under which this request may be announced, or 0.
  [[nodiscard]] std::uint32_t find(const Request& request) const;

  /// What an id means. Throws when it was never given.
  [[nodiscard]] const Known& get(std::uint32_t id) const;

  /// Root only: the next free id, or 0 when the capacity is used up.
  [[nodiscard]] std::uint32_t next_id() const;

  /// Learns an id from a plan.
  void learn(std::uint32_t id, const std::string& name, const Signature& signature);

  [[nodiscard]] std::size_t size() const { return known_.size(); }

 private:
  std::uint64_t capacity_;
  std::vector<Known> known_;  // id - 1 is the index
  std::unordered_map<std::string, std::vector<std::uint32_t>> named_;
  std::unordered_map<Signature, std::uint32_t> unnamed_;
};

}  // namespace hora
