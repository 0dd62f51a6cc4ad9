// What agreement costs on 2 to 32,768 ranks: messages, bytes, chains of messages and predicted time, beside
// the same for a flat coordinator with a fixed cycle. Simulated; see docs/scaling.md.

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "agreement/table.h"

namespace hora::benchmarks {
namespace {

struct Arguments {
  CostOptions costs;
  int most_ranks = 32768;
  std::string json;
  bool wants_help = false;
};

struct Option {
  const char* name;
  std::variant<int*, double*, std::string*> value;
  const char* help;
};

std::vector<Option> options_of(Arguments& arguments) {
  CostOptions& costs = arguments.costs;
  return {
      {"--most-ranks", &arguments.most_ranks, "the table goes up to so many, in powers of two"},
      {"--ranks-per-host", &costs.ranks_per_host, "ranks on each host"},
      {"--arity", &costs.arity, "children of a node on its host, and as many on others"},
      {"--tensors", &costs.tensors, "tensors in a training step"},
      {"--waves", &costs.waves, "parts of a step whose tensors become ready together"},
      {"--step-ms", &costs.step_ms, "duration of a step in ms"},
      {"--latency-inside-us", &costs.latency_inside_us, "of a message inside a host, in us"},
      {"--latency-between-us", &costs.latency_between_us, "of a message between hosts, in us"},
      {"--bandwidth-inside-GBps", &costs.bandwidth_inside_GBps, "inside a host, in GB/s"},
      {"--bandwidth-between-GBps", &costs.bandwidth_between_GBps, "between hosts, in GB/s"},
      {"--handling-us", &costs.handling_us, "time of a rank to send a message, and to receive one, in us"},
      {"--cycle-ms", &costs.cycle_ms, "cycle of the flat coordinator in ms"},
      {"--request-bytes", &costs.request_bytes, "description of a tensor at the flat coordinator, in bytes"},
      {"--json", &arguments.json, "file to write to"},
  };
}

void set(const Option& option, const std::string& text) {
  try {
    if (auto* const* whole = std::get_if<int*>(&option.value)) **whole = std::stoi(text);
    if (auto* const* real = std::get_if<double*>(&option.value)) **real = std::stod(text);
    if (auto* const* word = std::get_if<std::string*>(&option.value)) **word = text;
  } catch (const std::logic_error&) {
    throw std::invalid_argument(fmt::format("{}: '{}' is no number", option.name, text));
  }
}

Arguments parse(const std::vector<std::string>& words) {
  Arguments arguments;
  const std::vector<Option> options = options_of(arguments);
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (words[at] == "--help") {
      arguments.wants_help = true;
      continue;
    }
    bool is_known = false;
    for (const Option& option : options) {
      if (words[at] != option.name) continue;
      if (++at == words.size()) throw std::invalid_argument(fmt::format("{} needs a value", option.name));
      set(option, words[at]);
      is_known = true;
      break;
    }
    if (!is_known) throw std::invalid_argument(words[at] + " is no option; see --help");
  }
  if (arguments.most_ranks < 2) throw std::invalid_argument("--most-ranks must be at least 2");
  return arguments;
}

void print_help() {
  Arguments defaults;
  for (const Option& option : options_of(defaults)) {
    const std::string value =
        std::visit([](const auto* each) { return fmt::format("{}", *each); }, option.value);
    fmt::print("  {:<26}{}{}\n", option.name, option.help,
               value.empty() ? "" : fmt::format(" (default {})", value));
  }
}

void run(const Arguments& arguments) {
  std::vector<Row> rows;
  for (int ranks = 2; ranks <= arguments.most_ranks; ranks *= 2) {
    rows.push_back({ranks, arguments.costs.hosts(ranks), tree_cost(ranks, arguments.costs),
                    flat_cost(ranks, arguments.costs)});
  }
  fmt::print(
      "Agreement on {} tensors of a step in {} waves, {} ranks per host, simulated. Messages and bytes (B, "
      "KB): sent by a "
      "rank in a step,\non average. Chain: messages that wait for each other in a wave; fan-in: messages "
      "that one rank "
      "receives in a wave, at most; us: until\nall ranks know of a wave. Flat: a coordinator without a tree, "
      "in cycles of "
      "{} ms. In: inside a host; between: between hosts.\n\n",
      arguments.costs.tensors, arguments.costs.waves, arguments.costs.ranks_per_host,
      arguments.costs.cycle_ms);
  fmt::print("{}", make_table(rows));
  if (arguments.json.empty()) return;
  std::ofstream file(arguments.json);
  file << make_json(rows, arguments.costs);
  if (!file.flush()) throw std::runtime_error("cannot write " + arguments.json);
}

}  // namespace
}  // namespace hora::benchmarks

int main(int count, char** words) {
  try {
    const auto arguments = hora::benchmarks::parse({words + 1, words + count});
    if (arguments.wants_help) {
      hora::benchmarks::print_help();
    } else {
      hora::benchmarks::run(arguments);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "agreement_scale: {}\n", error.what());
    return 1;
  }
  return 0;
}
