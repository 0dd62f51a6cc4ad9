#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace hora::fake_cuda {

/// What the driver's handles of one kind stand for. A handle is a number that is never given twice and no
/// address, so that a use after its destruction is found and a look behind it faults.
///
/// Not synchronised.
template <class Handle, class Object>
class Handles {
 public:
  explicit Handles(std::uintptr_t kind) : next_(kind << 32) {}

  Handle add(std::shared_ptr<Object> object) {
    next_ += 16;
    objects_.emplace(next_, std::move(object));
    return reinterpret_cast<Handle>(next_);
  }

  [[nodiscard]] std::shared_ptr<Object> find(Handle handle) const {
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    return found == objects_.end() ? nullptr : found->second;
  }

  /// What was removed, or null.
  std::shared_ptr<Object> remove(Handle handle) {
    auto node = objects_.extract(reinterpret_cast<std::uintptr_t>(handle));
    return node.empty() ? nullptr : std::move(node.mapped());
  }

  template <class Predicate>
  void remove_if(Predicate predicate) {
    std::erase_if(objects_, [&](const auto& each) { return predicate(*each.second); });
  }

 private:
  std::uintptr_t next_;
  std::map<std::uintptr_t, std::shared_ptr<Object>> objects_;
};

}  // namespace hora::fake_cuda
