#include "negotiation/cache.h"

#include <algorithm>

#include "base/error.h"

namespace hora {

Cache::Encoded Cache::encode(const Key& key, const Signature& signature, std::size_t& signature_at) const {
  scratch_.clear();
  scratch_.signed_varint(key.process_set);
  scratch_.text(key.name);
  signature_at = scratch_.written().size();
  signature.write(scratch_);
  const auto written = scratch_.written();
  return {reinterpret_cast<const char*>(written.data()), written.size()};
}

Cache::Encoded Cache::keep(Encoded bytes) {
  auto* const kept = static_cast<char*>(memory_->allocate(bytes.size(), 1));
  std::ranges::copy(bytes, kept);
  return {kept, bytes.size()};
}

std::uint32_t Cache::find(const Request& request) const {
  if (!request.signature.refusal.empty()) return 0;
  std::size_t signature_at = 0;
  const auto found = ids_.find(encode(request.key, request.signature, signature_at));
  return found == ids_.end() ? 0 : found->second;
}

const Cache::Known& Cache::get(std::uint32_t id) const {
  const auto found = meanings_.find(id);
  if (found == meanings_.end())
    raise(ErrorKind::kSessionFailed, "a message uses the unknown tensor id {}", id);
  return found->second;
}

std::uint32_t Cache::give(const Key& key, const SharedSignature& signature) {
  if (meanings_.size() >= capacity_) return 0;
  learn(last_id_ + 1, key, signature);
  return last_id_;
}

void Cache::learn(std::uint32_t id, const Key& key, const SharedSignature& signature) {
  if (meanings_.contains(id)) return;
  if (id <= last_id_) raise(ErrorKind::kSessionFailed, "tensor id {} arrived after {}", id, last_id_);
  last_id_ = id;
  std::size_t signature_at = 0;
  const Encoded kept = keep(encode(key, *signature, signature_at));
  const auto [known, is_new] = signatures_.try_emplace(kept.substr(signature_at), signature);
  // The name lies before the signature.
  const Encoded name = kept.substr(signature_at - key.name.size(), key.name.size());
  meanings_.emplace(id, Known{key.process_set, name, known->second});
  ids_.emplace(kept, id);
}

}  // namespace hora
