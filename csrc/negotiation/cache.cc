#include "negotiation/cache.h"

#include <algorithm>

#include "base/error.h"

namespace hora {

Cache::Meaning Cache::encode(const Key& key, const Signature& signature) const {
  scratch_.clear();
  scratch_.signed_varint(key.process_set);
  scratch_.text(key.name);
  signature.write(scratch_);
  const auto written = scratch_.written();
  return {reinterpret_cast<const char*>(written.data()), written.size()};
}

std::uint32_t Cache::find(const Request& request) const {
  if (!request.signature.refusal.empty()) return 0;
  const auto found = ids_.find(encode(request.key, request.signature));
  return found == ids_.end() ? 0 : found->second;
}

Cache::Known Cache::get(std::uint32_t id) const {
  const auto found = meanings_.find(id);
  if (found == meanings_.end())
    raise(ErrorKind::kSessionFailed, "a message uses the unknown tensor id {}", id);
  ByteReader in(std::as_bytes(std::span(found->second)));
  Known known;
  known.process_set = static_cast<std::int32_t>(in.signed_varint());
  known.name = in.text();
  known.signature = Signature::read(in);
  return known;
}

std::uint32_t Cache::give(const Key& key, const Signature& signature) {
  if (meanings_.size() >= capacity_) return 0;
  learn(last_id_ + 1, key, signature);
  return last_id_;
}

void Cache::learn(std::uint32_t id, const Key& key, const Signature& signature) {
  if (meanings_.contains(id)) return;
  if (id <= last_id_) raise(ErrorKind::kSessionFailed, "tensor id {} arrived after {}", id, last_id_);
  last_id_ = id;
  const Meaning meaning = encode(key, signature);
  auto* const kept = static_cast<char*>(memory_->allocate(meaning.size(), 1));
  std::ranges::copy(meaning, kept);
  const Meaning kept_meaning(kept, meaning.size());
  meanings_.emplace(id, kept_meaning);
  ids_.emplace(kept_meaning, id);
}

}  // namespace hora
