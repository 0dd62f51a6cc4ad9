#include "negotiation/mismatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/text.h"

namespace hora {
namespace {

/// The first tensor about which the variants differ; nothing when there is none, or their numbers differ.
std::optional<std::size_t> odd_tensor(std::span<const Variant> all) {
  const Signature* first = nullptr;
  for (const Variant& variant : all) {
    const Signature& signature = variant.signature;
    if (!signature.refusal.empty()) continue;
    if (first == nullptr) first = &signature;
    if (signature.tensors.size() != first->tensors.size()) return std::nullopt;
  }
  const auto differs = [&](std::size_t tensor) {
    return std::ranges::any_of(all, [&](const Variant& variant) {
      const Signature& signature = variant.signature;
      return signature.refusal.empty() && signature.tensors[tensor] != first->tensors[tensor];
    });
  };
  for (std::size_t tensor = 0; first != nullptr && tensor < first->tensors.size(); ++tensor) {
    if (differs(tensor)) return tensor;
  }
  return std::nullopt;
}

/// What a rank sent, in short: of a group only the tensor about which ranks differ.
std::string describe_tensors(const Signature& signature, std::optional<std::size_t> odd) {
  const std::vector<TensorType>& tensors = signature.tensors;
  if (tensors.empty()) return "no tensor";
  if (tensors.size() == 1) return describe(tensors[0].dtype, tensors[0].shape);
  if (!odd) return fmt::format("{} tensors", tensors.size());
  const TensorType& tensor = tensors[*odd];
  return fmt::format("{} as tensor {} of {}", describe(tensor.dtype, tensor.shape), *odd, tensors.size());
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
  if (own.op == OpKind::kAddProcessSet || own.op == OpKind::kRemoveProcessSet) {
    text += "the ranks " + RankSet(own.ranks).to_string();
  } else {
    text += describe_tensors(own, odd_tensor(all));
  }
  if (differs(&Signature::reduce)) text += fmt::format(" op {}", name(own.reduce));
  if (differs(&Signature::root)) text += fmt::format(" root_rank {}", own.root);
  if (differs(&Signature::prescale)) text += fmt::format(" prescale_factor {}", own.prescale);
  if (differs(&Signature::postscale)) text += fmt::format(" postscale_factor {}", own.postscale);
  if (differs(&Signature::wire))
    text += fmt::format(" travelling as {}", own.wire ? name(*own.wire) : "it is");
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
