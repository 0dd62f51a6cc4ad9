#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "core/op.h"
#include "core/tensor_ref.h"

namespace hora {

/// The process set of all ranks.
inline constexpr std::int32_t kGlobalSet = 0;

/// Everything about one call that has to be equal on all ranks.
struct Signature {
  OpKind op = OpKind::kAllreduce;
  DeviceKind device = DeviceKind::kHost;
  ReduceOp reduce = ReduceOp::kSum;
  std::int64_t root = 0;
  double prescale = 1.0;
  double postscale = 1.0;
  std::vector<TensorType>
      tensors;                ///< one, those of a group, or none; extents kRagged where ranks may differ
  std::vector<int> ranks;     ///< the process set to add or to remove
  std::optional<DType> wire;  ///< what floating-point numbers on a device travel as, if not as they are
  std::string refusal;        ///< not empty: this rank refused the call itself, and why

  /// Marks a dimension that is not agreed.
  static constexpr std::int64_t kRagged = -1;

  /// Size of all tensors, where no dimension is ragged.
  [[nodiscard]] std::size_t bytes() const;
  /// Whether the tensors have one dtype.
  [[nodiscard]] bool is_uniform() const;

  bool operator==(const Signature&) const = default;

  void write(ByteWriter& out) const;
  [[nodiscard]] static Signature read(ByteReader& in);
};

/// A signature that never changes, shared by all that mention it: it is made once and then costs a pointer.
class SharedSignature {
 public:
  SharedSignature() = default;
  SharedSignature(Signature signature)  // NOLINT(google-explicit-constructor): it stands for the value
      : signature_(std::make_shared<const Signature>(std::move(signature))) {}

  [[nodiscard]] const Signature& operator*() const { return *signature_; }
  [[nodiscard]] const Signature* operator->() const { return signature_.get(); }

  bool operator==(const SharedSignature& other) const {
    return signature_ == other.signature_ || *signature_ == *other.signature_;
  }

 private:
  std::shared_ptr<const Signature> signature_;
};

/// Under which ranks' announcements meet: within a process set, the name a user gave, or the running number
/// of an unnamed call.
struct Key {
  std::string name;
  std::uint64_t number = 0;  ///< from 1 for unnamed calls, 0 for named ones
  std::int32_t process_set = kGlobalSet;

  /// Join has a key of its own, because ranks join wherever they are in their numbering.
  static constexpr std::uint64_t kJoinNumber = std::uint64_t{1} << 62;
  [[nodiscard]] static Key join() { return {{}, kJoinNumber}; }

  /// Whether only one call with this key can be in flight.
  [[nodiscard]] bool is_unique() const { return !name.empty() || number == kJoinNumber; }

  bool operator==(const Key&) const = default;
  [[nodiscard]] std::string to_string() const;
};

/// Where a program made a call, such as "train.py:41"; null: not known.
using Caller = std::shared_ptr<const std::string>;

/// What one rank announces about one call.
struct Request {
  Key key;
  Signature signature;
  std::uint64_t bytes = 0;  ///< size of the tensors on this rank; not agreed
};

}  // namespace hora

template <>
struct std::hash<hora::Key> {
  std::size_t operator()(const hora::Key& key) const noexcept {
    return std::hash<std::string>()(key.name) ^
           ((key.number + (static_cast<std::size_t>(key.process_set) << 40)) * 0x9e3779b97f4a7c15u);
  }
};
