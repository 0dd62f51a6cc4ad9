#include "negotiation/mismatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/table.h"
#include "base/text.h"

namespace hora {
namespace {

// What is shown of many groups, refusals and ranks, and of long texts.
constexpr std::size_t kMostGroups = 8;
constexpr std::size_t kMostRefusals = 3;
constexpr std::size_t kWidestCell = 50;
constexpr std::size_t kWidestRanks = 40;
constexpr std::size_t kLongestReason = 300;

using Groups = std::vector<Variant>;

bool is_refusal(const Variant& group) {
  return !group.signature.refusal.empty();
}

Groups rare_ones_first(std::span<const Variant> variants) {
  Groups groups(variants.begin(), variants.end());
  std::ranges::sort(groups, [](const Variant& left, const Variant& right) {
    const int left_size = left.ranks.size();
    const int right_size = right.ranks.size();
    return left_size != right_size ? left_size < right_size : left.ranks.lowest() < right.ranks.lowest();
  });
  return groups;
}

/// Leaves out those between the rarest and the largest; returns how many.
std::size_t leave_out_some(Groups& groups) {
  if (groups.size() <= kMostGroups) return 0;
  const std::size_t too_many = groups.size() - kMostGroups;
  const auto first = groups.end() - 1 - static_cast<std::ptrdiff_t>(too_many);
  groups.erase(first, groups.end() - 1);
  return too_many;
}

/// An attribute that may differ; a cell of its column says what a rank sent.
struct Attribute {
  std::string name;
  std::function<std::string(const Signature& signature)> text;
};

/// Those about which ranks disagree, and in words.
struct Difference {
  std::vector<Attribute> columns;
  std::vector<std::string> words;

  /// Takes up those of some attributes that differ.
  void add(const Groups& sent, std::vector<Attribute> attributes, const std::string& of_what = {}) {
    std::vector<std::string> names;
    for (Attribute& attribute : attributes) {
      const std::string first = attribute.text(sent.front().signature);
      if (std::ranges::all_of(sent,
                              [&](const Variant& group) { return attribute.text(group.signature) == first; }))
        continue;
      names.push_back(attribute.name);
      columns.push_back(std::move(attribute));
    }
    if (!names.empty()) words.push_back(join(names, " and ") + of_what);
  }
};

std::string extents(const Shape& shape) {
  std::vector<std::string> parts;
  for (const std::int64_t extent : shape)
    parts.push_back(extent == Signature::kRagged ? "*" : std::to_string(extent));
  return fmt::format("[{}]", join(parts, ","));
}

bool have_as_many_tensors(const Groups& sent) {
  return std::ranges::all_of(sent, [&](const Variant& group) {
    return group.signature.tensors.size() == sent.front().signature.tensors.size();
  });
}

/// The first tensor about which groups differ that have as many.
std::optional<std::size_t> odd_tensor(const Groups& sent) {
  const std::vector<TensorType>& first = sent.front().signature.tensors;
  for (std::size_t tensor = 0; tensor < first.size(); ++tensor) {
    if (std::ranges::any_of(
            sent, [&](const Variant& group) { return group.signature.tensors[tensor] != first[tensor]; }))
      return tensor;
  }
  return std::nullopt;
}

void add_tensors(Difference& difference, const Groups& sent) {
  const std::optional<std::size_t> odd = odd_tensor(sent);
  if (!odd) return;
  const std::size_t count = sent.front().signature.tensors.size();
  difference.add(
      sent,
      {{"dtype", [odd](const Signature& each) { return std::string(name(each.tensors[*odd].dtype)); }},
       {"shape", [odd](const Signature& each) { return extents(each.tensors[*odd].shape); }}},
      count == 1 ? "" : fmt::format(" of tensor {} of {}", *odd, count));
}

/// Of different operations only the tensors are compared: the other arguments mean something else in each.
Difference difference_of(const Groups& sent) {
  Difference difference;
  difference.add(sent, {{"operation", [](const Signature& each) { return std::string(name(each.op)); }}});
  const bool is_one_operation = difference.columns.empty();
  if (have_as_many_tensors(sent)) {
    add_tensors(difference, sent);
  } else if (is_one_operation) {
    difference.add(sent, {{"number of tensors",
                           [](const Signature& each) { return std::to_string(each.tensors.size()); }}});
  }
  if (!is_one_operation) return difference;
  difference.add(
      sent, {{"op", [](const Signature& each) { return std::string(name(each.reduce)); }},
             {"root_rank", [](const Signature& each) { return std::to_string(each.root); }},
             {"prescale_factor", [](const Signature& each) { return fmt::format("{}", each.prescale); }},
             {"postscale_factor", [](const Signature& each) { return fmt::format("{}", each.postscale); }},
             {"compression",
              [](const Signature& each) { return std::string(each.wire ? name(*each.wire) : "none"); }},
             {"device", [](const Signature& each) { return std::string(name(each.device)); }},
             {"process set", [](const Signature& each) { return RankSet(each.ranks).to_string(); }}});
  return difference;
}

bool goes_on_with_a_letter(char byte) {
  return (static_cast<unsigned char>(byte) >> 6) == 2;
}

/// Of a long text the beginning, in one line.
std::string beginning(std::string text, std::size_t most) {
  std::ranges::replace(text, '\n', ' ');
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && goes_on_with_a_letter(text[end])) --end;
  return text.substr(0, end) + "...";
}

/// Of a long path the end.
std::string ending(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t first = text.size() - most;
  while (first < text.size() && goes_on_with_a_letter(text[first])) ++first;
  return "..." + text.substr(first);
}

std::string ranks_text(const RankSet& ranks) {
  const std::string text = ranks.to_string();
  if (text.size() <= kWidestRanks) return text;
  return fmt::format("{},.. ({} ranks)", text.substr(0, text.rfind(',', kWidestRanks)), ranks.size());
}

std::string refusals_text(const Groups& refusals) {
  std::vector<std::string> parts;
  for (const Variant& group : refusals) {
    if (parts.size() == kMostRefusals) break;
    parts.push_back(fmt::format("rank{} {} refused the call ({})", group.ranks.size() == 1 ? "" : "s",
                                ranks_text(group.ranks), beginning(group.signature.refusal, kLongestReason)));
  }
  if (refusals.size() > parts.size())
    parts.push_back(fmt::format("and {} more groups of ranks refused it", refusals.size() - parts.size()));
  return join(parts, ", ");
}

/// Empty where it would say nothing but ranks.
std::string table_of(Groups groups, const Difference& difference, const std::map<int, std::string>& callers) {
  if (difference.columns.empty() && callers.empty()) return {};
  const auto refusals = static_cast<std::size_t>(std::ranges::count_if(groups, is_refusal));
  const bool tells_refusals = refusals > 0 && refusals < groups.size();
  std::vector<std::string> titles{"ranks"};
  if (tells_refusals) titles.emplace_back("call");
  for (const Attribute& attribute : difference.columns) titles.push_back(attribute.name);
  if (!callers.empty()) titles.emplace_back("called at");

  const std::size_t left_out = leave_out_some(groups);
  std::vector<std::vector<std::string>> rows{titles};
  for (const Variant& group : groups) {
    auto& row = rows.emplace_back();
    row.push_back(ranks_text(group.ranks));
    if (tells_refusals) row.emplace_back(is_refusal(group) ? "refused" : "made");
    for (const Attribute& attribute : difference.columns)
      row.push_back(is_refusal(group) ? "-" : beginning(attribute.text(group.signature), kWidestCell));
    if (callers.empty()) continue;
    const auto caller = callers.find(group.ranks.lowest());
    row.push_back(caller == callers.end() ? "-" : ending(caller->second, kWidestCell));
  }
  std::vector<std::string> lines = aligned(rows);
  if (left_out > 0) lines.insert(lines.end() - 1, fmt::format("and {} more", left_out));
  return "\n  " + join(lines, "\n  ");
}

}  // namespace

RankSet ranks_to_ask(std::span<const Variant> variants) {
  Groups groups = rare_ones_first(variants);
  leave_out_some(groups);
  std::vector<int> ranks;
  for (const Variant& group : groups) ranks.push_back(group.ranks.lowest());
  return RankSet(std::move(ranks));
}

std::string describe_mismatch(const Key& key, std::span<const Variant> variants,
                              const std::map<int, std::string>& callers) {
  const Groups groups = rare_ones_first(variants);
  Groups refusals;
  Groups sent;
  for (const Variant& group : groups) (is_refusal(group) ? refusals : sent).push_back(group);
  const Difference difference = sent.empty() ? Difference() : difference_of(sent);

  std::vector<std::string> sentence;
  if (!refusals.empty()) sentence.push_back(refusals_text(refusals));
  if (!difference.words.empty())
    sentence.push_back((refusals.empty() ? "ranks differ in " : "the others differ in ") +
                       join(difference.words, ", "));
  const OpKind op = groups.front().signature.op;
  const bool is_one_op = std::ranges::all_of(groups, [op](const Variant& v) { return v.signature.op == op; });
  return fmt::format("{} {}: {}{}", is_one_op ? name(op) : "tensor", key.to_string(), join(sentence, ", "),
                     table_of(groups, difference, callers));
}

}  // namespace hora
