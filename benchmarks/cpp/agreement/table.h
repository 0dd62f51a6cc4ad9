#pragma once

#include <string>
#include <vector>

#include "agreement/cost.h"

namespace hora::benchmarks {

struct Row {
  int ranks;
  int hosts;
  Costs tree;
  Costs flat;
};

/// One line for each number of ranks, below two lines of headings.
[[nodiscard]] std::string make_table(const std::vector<Row>& rows);
[[nodiscard]] std::string make_json(const std::vector<Row>& rows, const CostOptions& options);

}  // namespace hora::benchmarks
