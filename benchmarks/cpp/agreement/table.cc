#include "agreement/table.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

namespace hora::benchmarks {
namespace {

struct Column {
  const char* group;
  const char* name;
  int width;
  std::function<double(const Row&)> value;
};

std::vector<Column> columns() {
  return {
      {"", "ranks", 6, [](const Row& row) { return row.ranks; }},
      {"", "hosts", 6, [](const Row& row) { return row.hosts; }},
      {"hora, every step", "msg in", 8, [](const Row& row) { return row.tree.steady.messages_inside; }},
      {"", "between", 8, [](const Row& row) { return row.tree.steady.messages_between; }},
      {"", "B in", 7, [](const Row& row) { return row.tree.steady.bytes_inside; }},
      {"", "between", 8, [](const Row& row) { return row.tree.steady.bytes_between; }},
      {"", "chain in", 9, [](const Row& row) { return row.tree.steady.steps_inside; }},
      {"", "between", 8, [](const Row& row) { return row.tree.steady.steps_between; }},
      {"", "fan-in", 7, [](const Row& row) { return row.tree.steady.fan_in; }},
      {"", "us", 6, [](const Row& row) { return row.tree.steady.time_us; }},
      {"first step", "KB", 7,
       [](const Row& row) { return (row.tree.cold.bytes_inside + row.tree.cold.bytes_between) / 1e3; }},
      {"", "us", 6, [](const Row& row) { return row.tree.cold.time_us; }},
      {"flat, every step", "msg", 7,
       [](const Row& row) { return row.flat.steady.messages_inside + row.flat.steady.messages_between; }},
      {"", "B", 7,
       [](const Row& row) { return row.flat.steady.bytes_inside + row.flat.steady.bytes_between; }},
      {"", "chain", 7,
       [](const Row& row) { return row.flat.steady.steps_inside + row.flat.steady.steps_between; }},
      {"", "us", 6, [](const Row& row) { return row.flat.steady.time_us; }},
      {"first step", "fan-in", 8, [](const Row& row) { return row.flat.cold.fan_in; }},
      {"", "us", 8, [](const Row& row) { return row.flat.cold.time_us; }},
  };
}

std::string number(double value) {
  const bool is_whole = value == static_cast<double>(static_cast<long>(value));
  return is_whole || value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}", value);
}

/// The members of a JSON object, each name behind a prefix.
std::string fields(const std::string& prefix, const Cost& cost) {
  const std::vector<std::pair<const char*, double>> values{{"messages_inside", cost.messages_inside},
                                                           {"messages_between", cost.messages_between},
                                                           {"bytes_inside", cost.bytes_inside},
                                                           {"bytes_between", cost.bytes_between},
                                                           {"most_bytes", cost.most_bytes},
                                                           {"steps_inside", cost.steps_inside},
                                                           {"steps_between", cost.steps_between},
                                                           {"fan_in", cost.fan_in},
                                                           {"time_us", cost.time_us}};
  std::string text;
  for (const auto& [name, value] : values) text += fmt::format(", \"{}_{}\": {:.6g}", prefix, name, value);
  return text;
}

}  // namespace

std::string make_table(const std::vector<Row>& rows) {
  std::string groups;
  std::string names;
  std::size_t at = 0;
  for (const Column& column : columns()) {
    const std::string group = column.group;
    // A group's heading stands above its first column and those right of it.
    if (!group.empty())
      groups += std::string(at + 1 > groups.size() ? at + 1 - groups.size() : 1, ' ') + group;
    names += fmt::format("{:>{}}", column.name, column.width);
    at += static_cast<std::size_t>(column.width);
  }
  std::string text = groups + "\n" + names + "\n";
  for (const Row& row : rows) {
    for (const Column& column : columns())
      text += fmt::format("{:>{}}", number(column.value(row)), column.width);
    text += "\n";
  }
  return text;
}

std::string make_json(const std::vector<Row>& rows, const CostOptions& options) {
  std::string text = "[";
  for (const Row& row : rows) {
    text += fmt::format(
        "{}\n{{\"ranks\": {}, \"hosts\": {}, \"waves\": {}, \"latency_inside_us\": {}, "
        "\"latency_between_us\": {}{}{}{}{}}}",
        text.size() > 1 ? "," : "", row.ranks, row.hosts, options.waves, options.latency_inside_us,
        options.latency_between_us, fields("hora_cold", row.tree.cold),
        fields("hora_steady", row.tree.steady), fields("flat_cold", row.flat.cold),
        fields("flat_steady", row.flat.steady));
  }
  return text + "\n]\n";
}

}  // namespace hora::benchmarks
