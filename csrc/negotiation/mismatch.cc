#include "negotiation/mismatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace hora {
namespace {

std::string describe_shape(const Shape& shape) {
  std::vector<std::string> extents;
  for (const std::int64_t extent : shape) {
    extents.push_back(extent == Signature::kRagged ? "*" : fmt::format("{}", extent));
  }
  return fmt::format("[{}]", join(extents, ","));
}

std::string describe(const Variant& variant, std::span<const Variant> all) {
  const Signature& own = variant.signature;
  const auto differs = [&](auto Signature::* attribute) {
    return std::ranges::any_of(all, [&](const Variant& other) {
      return other.signature.refusal.empty() && other.signature.*attribute != own.*attribute;
    });
  };
  const std::string who =
      fmt::format("rank{} {}", variant.ranks.size() == 1 ? "" : "s", variant.ranks.to_string());
  if (!own.refusal.empty()) return fmt::format("{} refused the call ({})", who, own.refusal);

  std::string text = who + " sent ";
  if (differs(&Signature::op)) text += fmt::format("{} ", name(own.op));
  text += own.op == OpKind::kBarrier ? std::string("no tensor")
                                     : std::string(name(own.dtype)) + describe_shape(own.shape);
  if (differs(&Signature::reduce)) text += fmt::format(" op {}", name(own.reduce));
  if (differs(&Signature::root)) text += fmt::format(" root_rank {}", own.root);
  if (differs(&Signature::prescale)) text += fmt::format(" prescale_factor {}", own.prescale);
  if (differs(&Signature::postscale)) text += fmt::format(" postscale_factor {}", own.postscale);
  if (differs(&Signature::device)) text += fmt::format(" on {}", name(own.device));
  return text;
}

}  // namespace

std::string describe_mismatch(const Key& key, std::span<const Variant> variants) {
  std::vector<Variant> ordered(variants.begin(), variants.end());
  std::ranges::sort(ordered, [](const Variant& left, const Variant& right) {
    const int left_size = left.ranks.size();
    const int right_size = right.ranks.size();
    return left_size != right_size ? left_size < right_size : left.ranks.lowest() < right.ranks.lowest();
  });
  std::vector<std::string> parts;
  for (const Variant& variant : ordered) parts.push_back(describe(variant, ordered));
  const OpKind op = ordered.front().signature.op;
  const bool same_op = std::ranges::all_of(ordered, [op](const Variant& v) { return v.signature.op == op; });
  return fmt::format("{} {}: {}", same_op ? name(op) : "tensor", key.to_string(), join(parts, ", "));
}

}  // namespace hora
