#include "negotiation/members.h"

#include <algorithm>
#include <utility>

namespace hora {

Members::Members(const Tree& tree, std::vector<int> ranks)
    : ranks_(std::move(ranks)),
      has_self_(contains(tree.rank())),
      in_subtree_(has_self_ ? 1 : 0),
      sources_(has_self_ ? 1 : 0) {
  for (std::size_t child = 0; child < tree.children().size(); ++child) {
    const std::vector<int> subtree = tree.subtree(child).to_vector();
    const auto count = std::ranges::count_if(subtree, [this](int rank) { return contains(rank); });
    below_.push_back(static_cast<int>(count));
    in_subtree_ += below_.back();
    sources_ += count > 0 ? 1 : 0;
  }
}

bool Members::contains(int rank) const {
  return std::ranges::binary_search(ranks_, rank);
}

}  // namespace hora
