#include "negotiation/cache.h"

#include "base/error.h"

namespace hora {

std::uint32_t Cache::find(const Request& request) const {
  if (!request.signature.refusal.empty()) return 0;
  if (request.key.number != 0) {
    const auto found = unnamed_.find(request.signature);
    return found == unnamed_.end() ? 0 : found->second;
  }
  const auto found = named_.find(request.key.name);
  if (found == named_.end()) return 0;
  for (const std::uint32_t id : found->second) {
    if (get(id).signature == request.signature) return id;
  }
  return 0;
}

const Cache::Known& Cache::get(std::uint32_t id) const {
  if (id == 0 || id > known_.size())
    raise(ErrorKind::kSessionFailed, "a message uses the unknown tensor id {}", id);
  return known_[id - 1];
}

std::uint32_t Cache::next_id() const {
  return known_.size() < capacity_ ? static_cast<std::uint32_t>(known_.size() + 1) : 0;
}

void Cache::learn(std::uint32_t id, const std::string& name, const Signature& signature) {
  if (id != known_.size() + 1) raise(ErrorKind::kSessionFailed, "tensor id {} arrived out of order", id);
  known_.push_back({name, signature});
  if (name.empty()) {
    unnamed_.emplace(signature, id);
  } else {
    named_[name].push_back(id);
  }
}

}  // namespace hora
