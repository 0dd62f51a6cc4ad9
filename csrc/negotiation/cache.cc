#include "negotiation/cache.h"

#include <algorithm>

#include "base/error.h"

namespace hora {

Cache::Meaning Cache::encode(const std::string& name, const Signature& signature) const {
  scratch_.clear();
  scratch_.text(name);
  signature.write(scratch_);
  const auto written = scratch_.written();
  return {reinterpret_cast<const char*>(written.data()), written.size()};
}

std::uint32_t Cache::find(const Request& request) const {
  if (!request.signature.refusal.empty()) return 0;
  const auto found = ids_.find(encode(request.key.name, request.signature));
  return found == ids_.end() ? 0 : found->second;
}

Cache::Known Cache::get(std::uint32_t id) const {
  if (id == 0 || id > meanings_.size())
    raise(ErrorKind::kSessionFailed, "a message uses the unknown tensor id {}", id);
  ByteReader in(std::as_bytes(std::span(meanings_[id - 1])));
  std::string name = in.text();
  return {std::move(name), Signature::read(in)};
}

std::uint32_t Cache::next_id() const {
  return meanings_.size() < capacity_ ? static_cast<std::uint32_t>(meanings_.size() + 1) : 0;
}

void Cache::learn(std::uint32_t id, const std::string& name, const Signature& signature) {
  if (id != meanings_.size() + 1) raise(ErrorKind::kSessionFailed, "tensor id {} arrived out of order", id);
  const Meaning meaning = encode(name, signature);
  auto* const kept = static_cast<char*>(memory_->allocate(meaning.size(), 1));
  std::ranges::copy(meaning, kept);
  meanings_.emplace_back(kept, meaning.size());
  ids_.emplace(meanings_.back(), id);
}

}  // namespace hora
