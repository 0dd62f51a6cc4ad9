#include "stand_ins/nccl/control.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hora::fake_nccl {
namespace {

using Place = std::pair<int, std::uint64_t>;  // rank and operation

/// Tests that run for long do not fill the memory.
constexpr std::size_t kLogLimit = std::size_t{1} << 20;

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

struct Faults {
  std::map<int, std::chrono::microseconds> slow;
  std::set<Place> hangs;
  std::set<Place> errors;
  int failing_inits = 0;
  int failing_allocations = 0;
};

/// Calls `set` with what stands before and after the colon.
template <typename Set>
void read_place(const char* variable, Set set) {
  const char* const value = std::getenv(variable);
  if (value == nullptr) return;
  char* colon = nullptr;
  const auto rank = static_cast<int>(std::strtol(value, &colon, 10));
  if (*colon == ':') set(rank, std::strtoull(colon + 1, nullptr, 10));
}

Options options_of_environment() {
  Options options;
  options.seed = number_from("HORA_FAKE_NCCL_SEED", options.seed);
  options.max_delay_us =
      static_cast<std::uint32_t>(number_from("HORA_FAKE_NCCL_DELAY_US", options.max_delay_us));
  options.polls_in_progress = static_cast<std::uint32_t>(number_from("HORA_FAKE_NCCL_POLLS", 0));
  options.abort_ms = static_cast<std::uint32_t>(number_from("HORA_FAKE_NCCL_ABORT_MS", 0));
  options.check_rules = number_from("HORA_FAKE_NCCL_CHECK_RULES", 1) != 0;
  return options;
}

Faults faults_of_environment() {
  Faults faults;
  read_place("HORA_FAKE_NCCL_SLOW",
             [&](int rank, std::uint64_t us) { faults.slow[rank] = std::chrono::microseconds(us); });
  read_place("HORA_FAKE_NCCL_HANG_AT", [&](int rank, std::uint64_t at) { faults.hangs.emplace(rank, at); });
  read_place("HORA_FAKE_NCCL_ERROR_AT", [&](int rank, std::uint64_t at) { faults.errors.emplace(rank, at); });
  faults.failing_inits = static_cast<int>(number_from("HORA_FAKE_NCCL_FAIL_INITS", 0));
  faults.failing_allocations = static_cast<int>(number_from("HORA_FAKE_NCCL_FAIL_ALLOCATIONS", 0));
  return faults;
}

/// `mutex` guards the rest.
struct Control {
  std::mutex mutex;
  Options options = options_of_environment();
  Faults faults = faults_of_environment();
  Counts counts{};
  std::vector<Call> calls;
};

/// A C interface has nowhere else to keep this. It lives for ever: work may still run while the process ends.
Control& control() {
  static auto* const only = new Control;
  return *only;
}

bool use_up(int& left) {
  if (left <= 0) return false;
  --left;
  return true;
}

/// Steele and others: Fast Splittable Pseudorandom Number Generators, 2014.
std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

}  // namespace

Options options() {
  const std::lock_guard lock(control().mutex);
  return control().options;
}

void count(std::uint64_t Counts::* what, std::uint64_t more) {
  const std::lock_guard lock(control().mutex);
  control().counts.*what += more;
}

void log(const Call& call) {
  const std::lock_guard lock(control().mutex);
  if (control().calls.size() < kLogLimit) control().calls.push_back(call);
}

std::chrono::microseconds delay(int rank, std::uint64_t event) {
  const Options now = options();
  const std::uint64_t drawn =
      mixed(now.seed + mixed(event * 0x9e3779b97f4a7c15ull + static_cast<unsigned>(rank)));
  return std::chrono::microseconds(drawn % (std::uint64_t{now.max_delay_us} + 1));
}

std::chrono::microseconds slowness(int rank) {
  const std::lock_guard lock(control().mutex);
  const auto found = control().faults.slow.find(rank);
  return found == control().faults.slow.end() ? std::chrono::microseconds(0) : found->second;
}

bool hang_strikes(int rank, std::uint64_t operation) {
  const std::lock_guard lock(control().mutex);
  return control().faults.hangs.erase({rank, operation}) != 0;
}

bool error_strikes(int rank, std::uint64_t operation) {
  const std::lock_guard lock(control().mutex);
  return control().faults.errors.erase({rank, operation}) != 0;
}

bool init_fails() {
  const std::lock_guard lock(control().mutex);
  return use_up(control().faults.failing_inits);
}

bool allocation_fails() {
  const std::lock_guard lock(control().mutex);
  return use_up(control().faults.failing_allocations);
}

extern "C" {

Counts fake_nccl_counts() {
  const std::lock_guard lock(control().mutex);
  return control().counts;
}

void fake_nccl_set_options(const Options* options) {
  const std::lock_guard lock(control().mutex);
  control().options = *options;
}

void fake_nccl_reset() {
  const std::lock_guard lock(control().mutex);
  control().options = options_of_environment();
  control().faults = faults_of_environment();
  control().counts = {};
  control().calls.clear();
}

void fake_nccl_slow(int rank, std::uint32_t delay_us) {
  const std::lock_guard lock(control().mutex);
  control().faults.slow[rank] = std::chrono::microseconds(delay_us);
}

void fake_nccl_hang_at(int rank, std::uint64_t operation) {
  const std::lock_guard lock(control().mutex);
  control().faults.hangs.emplace(rank, operation);
}

void fake_nccl_error_at(int rank, std::uint64_t operation) {
  const std::lock_guard lock(control().mutex);
  control().faults.errors.emplace(rank, operation);
}

void fake_nccl_fail_inits(int count) {
  const std::lock_guard lock(control().mutex);
  control().faults.failing_inits = count;
}

void fake_nccl_fail_allocations(int count) {
  const std::lock_guard lock(control().mutex);
  control().faults.failing_allocations = count;
}

std::size_t fake_nccl_log(Call* calls, std::size_t capacity) {
  const std::lock_guard lock(control().mutex);
  const std::vector<Call>& all = control().calls;
  std::copy_n(all.begin(), std::min(capacity, all.size()), calls);
  return all.size();
}
}

}  // namespace hora::fake_nccl
