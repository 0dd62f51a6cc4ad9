#include "core/request.h"

#include <fmt/format.h>

namespace hora {

void Signature::write(ByteWriter& out) const {
  out.fixed(op);
  out.fixed(dtype);
  out.fixed(device);
  out.fixed(reduce);
  out.signed_varint(root);
  out.signed_varint(process_set);
  out.fixed(prescale);
  out.fixed(postscale);
  out.varint(shape.size());
  for (const std::int64_t extent : shape) out.signed_varint(extent);
  out.text(refusal);
}

Signature Signature::read(ByteReader& in) {
  Signature signature;
  signature.op = in.one_of(OpKind::kBarrier);
  signature.dtype = in.one_of(DType::kFloat64);
  signature.device = in.one_of(DeviceKind::kCuda);
  signature.reduce = in.one_of(ReduceOp::kProduct);
  signature.root = in.signed_varint();
  signature.process_set = static_cast<std::int32_t>(in.signed_varint());
  signature.prescale = in.fixed<double>();
  signature.postscale = in.fixed<double>();
  const std::size_t dimensions = in.length();
  for (std::size_t at = 0; at < dimensions; ++at) signature.shape.push_back(in.signed_varint());
  signature.refusal = in.text();
  return signature;
}

std::string Key::to_string() const {
  return number == 0 ? fmt::format("'{}'", name) : fmt::format("unnamed call {}", number);
}

}  // namespace hora

std::size_t std::hash<hora::Signature>::operator()(const hora::Signature& signature) const noexcept {
  std::size_t seed = static_cast<std::size_t>(signature.op) | static_cast<std::size_t>(signature.dtype) << 8 |
                     static_cast<std::size_t>(signature.reduce) << 16;
  for (const std::int64_t extent : signature.shape) {
    seed = (seed ^ static_cast<std::size_t>(extent)) * 0x9e3779b97f4a7c15u;
  }
  return seed;
}
