#include "core/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/rank_set.h"

namespace hora {
namespace {

/// Its size can be told without an overflow; only a first extent may be ragged.
void check(const TensorType& tensor) {
  auto bytes = static_cast<std::int64_t>(size_of(tensor.dtype));
  for (std::size_t at = 0; at < tensor.shape.size(); ++at) {
    const std::int64_t extent = tensor.shape[at];
    const bool is_ragged = at == 0 && extent == Signature::kRagged;
    if ((extent < 0 && !is_ragged) ||
        __builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes))
      ByteReader::fail("the shape " + describe(tensor.dtype, tensor.shape));
  }
}

}  // namespace

void Signature::write(ByteWriter& out) const {
  out.fixed(op);
  out.fixed(static_cast<std::uint8_t>(kDeviceNames.size() * (wire ? 1 + static_cast<std::size_t>(*wire) : 0) +
                                      static_cast<std::size_t>(device)));
  out.fixed(reduce);
  out.signed_varint(root);
  out.fixed(prescale);
  out.fixed(postscale);
  out.varint(tensors.size());
  for (const TensorType& tensor : tensors) {
    out.fixed(tensor.dtype);
    out.varint(tensor.shape.size());
    for (const std::int64_t extent : tensor.shape) out.signed_varint(extent);
  }
  out.varint(ranks.size());
  for (const int rank : ranks) out.varint(static_cast<std::uint64_t>(rank));
  out.text(refusal);
}

Signature Signature::read(ByteReader& in) {
  Signature signature;
  signature.op = in.one_of<OpKind>(kOpNames.size());
  const std::size_t device_and_wire = in.one_of<std::uint8_t>(kDeviceNames.size() * (1 + kDTypes.size()));
  signature.device = static_cast<DeviceKind>(device_and_wire % kDeviceNames.size());
  if (const std::size_t wire = device_and_wire / kDeviceNames.size(); wire > 0)
    signature.wire = static_cast<DType>(wire - 1);
  signature.reduce = in.one_of<ReduceOp>(kReduceOpNames.size());
  signature.root = in.signed_varint();
  signature.prescale = in.fixed<double>();
  signature.postscale = in.fixed<double>();
  signature.tensors.resize(in.length());
  for (TensorType& tensor : signature.tensors) {
    tensor.dtype = in.one_of<DType>(kDTypes.size());
    tensor.shape.resize(in.length());
    for (std::int64_t& extent : tensor.shape) extent = in.signed_varint();
    check(tensor);
  }
  const std::size_t ranks = in.length();
  for (std::size_t at = 0; at < ranks; ++at) signature.ranks.push_back(in.up_to(kMostRanks - 1));
  if (!std::ranges::is_sorted(signature.ranks, std::less_equal<>())) in.fail("ranks are not in order");
  signature.refusal = in.text();
  return signature;
}

std::size_t Signature::bytes() const {
  return std::accumulate(tensors.begin(), tensors.end(), std::size_t{0},
                         [](std::size_t sum, const TensorType& tensor) { return sum + tensor.bytes(); });
}

bool Signature::is_uniform() const {
  return std::ranges::all_of(tensors,
                             [&](const TensorType& tensor) { return tensor.dtype == tensors.front().dtype; });
}

std::string Key::to_string() const {
  if (number == kJoinNumber) return "(all ranks)";
  return number == 0 ? fmt::format("'{}'", name) : fmt::format("unnamed call {}", number);
}

}  // namespace hora
