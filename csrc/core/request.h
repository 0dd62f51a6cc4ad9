#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/bytes.h"
#include "core/op.h"
#include "core/tensor_ref.h"

namespace hora {

/// Everything about one tensor that has to be equal on all ranks.
struct Signature {
  OpKind op = OpKind::kAllreduce;
  DType dtype = DType::kFloat32;
  DeviceKind device = DeviceKind::kHost;
  ReduceOp reduce = ReduceOp::kSum;
  std::int64_t root = 0;
  std::int32_t process_set = 0;
  double prescale = 1.0;
  double postscale = 1.0;
  Shape shape;          ///< kRagged where ranks may differ
  std::string refusal;  ///< not empty: this rank refused the call itself, and why

  /// Marks a dimension that is not agreed.
  static constexpr std::int64_t kRagged = -1;

  bool operator==(const Signature&) const = default;

  void write(ByteWriter& out) const;
  [[nodiscard]] static Signature read(ByteReader& in);
};

/// Under which ranks' announcements meet: the name a user gave, or the running number of an unnamed call.
struct Key {
  std::string name;
  std::uint64_t number = 0;  ///< from 1 for unnamed calls, 0 for named ones

  bool operator==(const Key&) const = default;
  [[nodiscard]] std::string to_string() const;
};

/// What one rank announces about one tensor.
struct Request {
  Key key;
  Signature signature;
  std::uint64_t bytes = 0;  ///< size on this rank, for fusion; not agreed
};

}  // namespace hora

template <>
struct std::hash<hora::Key> {
  std::size_t operator()(const hora::Key& key) const noexcept {
    return std::hash<std::string>()(key.name) ^
           (std::hash<std::uint64_t>()(key.number) * 0x9e3779b97f4a7c15u);
  }
};

template <>
struct std::hash<hora::Signature> {
  std::size_t operator()(const hora::Signature& signature) const noexcept;
};
