#include "base/table.h"

#include <algorithm>
#include <cstddef>

namespace hora {
namespace {

/// Bytes that go on with a letter of UTF-8 take no room of their own.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return (static_cast<unsigned char>(byte) >> 6) != 2; }));
}

}  // namespace

std::vector<std::string> aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], width_of(row[column]));
  }
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    std::string line;
    std::size_t gap = 0;
    for (std::size_t column = 0; column < row.size(); ++column) {
      line += std::string(gap, ' ') + row[column];
      gap = widths[column] - width_of(row[column]) + 2;
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace hora
