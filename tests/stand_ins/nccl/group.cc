#include "stand_ins/nccl/group.h"

#include <fmt/format.h>

#include <algorithm>

#include "stand_ins/nccl/launch.h"
#include "stand_ins/nccl/report.h"

namespace hora::fake_nccl {
namespace {

using nccl::Result;

/// Whether two calls of a group count as following each other.
bool share_places(const Operation& a, const Operation& b) {
  if (is_collective(a.description.kind)) return is_collective(b.description.kind);
  return a.description.kind == b.description.kind && a.peer == b.peer;
}

void number_places(std::vector<Operation>& operations) {
  for (std::size_t at = 0; at < operations.size(); ++at) {
    const auto shares = [&](const Operation& other) { return share_places(operations[at], other); };
    const auto here = operations.begin() + static_cast<std::ptrdiff_t>(at);
    Description& description = operations[at].description;
    description.place = static_cast<std::uint32_t>(std::count_if(operations.begin(), here, shares));
    description.places = static_cast<std::uint32_t>(std::ranges::count_if(operations, shares));
  }
}

std::ptrdiff_t count_to_self(const std::vector<Operation>& operations, int rank, Kind kind) {
  return std::ranges::count_if(operations, [&](const Operation& operation) {
    return operation.description.kind == kind && operation.peer == rank;
  });
}

}  // namespace

void Group::add(std::shared_ptr<Communicator> communicator, const Operation& operation) {
  auto part = std::ranges::find(parts_, communicator, &Part::communicator);
  if (part == parts_.end()) part = parts_.insert(part, {std::move(communicator), {}});
  part->operations.push_back(operation);
}

void Group::set_error(Result error) {
  if (error_ == Result::kSuccess) error_ = error;
}

Result Group::check() const {
  for (const Part& part : parts_) {
    const int rank = part.communicator->rank();
    if (part.communicator->blocking() != parts_.front().communicator->blocking())
      return failed(Result::kInvalidArgument, "blocking and non-blocking communicators in one group");
    if (count_to_self(part.operations, rank, Kind::kSend) !=
        count_to_self(part.operations, rank, Kind::kReceive))
      return failed(
          Result::kInvalidUsage,
          fmt::format("{} sends to itself and does not receive that in the same group, or the other "
                      "way round",
                      part.communicator->text()));
    const auto other_stream = [&](const Operation& operation) {
      return operation.stream != part.operations.front().stream;
    };
    if (std::ranges::any_of(part.operations, other_stream))
      return failed(Result::kInvalidUsage, "one communicator on two streams in one group is not known here");
  }
  return Result::kSuccess;
}

Result Group::run() {
  count(&Counts::groups);
  if (parts_.size() > 1) count(&Counts::groups_of_several_communicators);
  if (error_ != Result::kSuccess) return error_;
  Result result = check();
  if (result != Result::kSuccess) return result;
  for (Part& part : parts_) {
    number_places(part.operations);
    const Result launched = launch(part.communicator, std::move(part.operations));
    if (result == Result::kSuccess || launched != Result::kInProgress) result = launched;
    if (result != Result::kSuccess && result != Result::kInProgress) break;
  }
  return result;
}

}  // namespace hora::fake_nccl
