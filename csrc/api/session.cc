#include "api/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/rank_set.h"
#include "engine/engine.h"
#include "ops/table.h"

namespace hora {
namespace {

Submission to_submission(Call call) {
  const OpSpec& spec = op_spec(call.op);
  Submission submission;
  Request& request = submission.request;
  request.key = call.op == OpKind::kJoin ? Key::join() : Key{std::move(call.name), 0, call.process_set};
  request.signature = {.op = call.op,
                       .device = call.tensors.empty() ? DeviceKind::kHost : call.tensors.front().input.device,
                       .reduce = call.reduce,
                       .root = call.root,
                       .prescale = call.prescale,
                       .postscale = call.postscale,
                       .tensors = {},
                       .ranks = std::move(call.ranks),
                       .wire = call.wire,
                       .refusal = {}};
  request.signature.tensors.reserve(call.tensors.size());
  submission.tensors.reserve(call.tensors.size());
  for (CallTensor& tensor : call.tensors) {
    TensorRef& input = tensor.input;
    request.bytes += input.bytes();
    submission.tensors.push_back({input.data, tensor.output, input.shape.empty() ? 1 : input.shape.front()});
    if (spec.ragged_first && !input.shape.empty()) input.shape.front() = Signature::kRagged;
    request.signature.tensors.push_back({input.dtype, std::move(input.shape)});
  }
  submission.splits = std::move(call.splits);
  submission.ready.place = call.place;
  submission.caller = std::move(call.caller);
  submission.handle = std::make_shared<Handle>(request.key, request.signature.device);
  return submission;
}

void warn_about_binding(const Topology& topology) {
  if (topology.size() == 1 || usable_cores() > 1 || std::thread::hardware_concurrency() < 2) return;
  static std::once_flag told;
  std::call_once(told, [] {
    log_warning(
        "this rank may run on one core only, which its main thread and hora's background thread have to "
        "share; start with 'mpirun --bind-to none'");
  });
}

}  // namespace

Session::Session(std::unique_ptr<Transport> transport, const Settings& settings)
    : waits_on_host_(settings.device.waits_on_host) {
  warn_about_binding(transport->topology());
  engine_ = std::make_unique<Engine>(std::move(transport), settings);
}

Session::~Session() = default;

const Topology& Session::topology() const {
  return engine_->topology();
}
std::string_view Session::transport_name() const {
  return engine_->transport_name();
}
const Counters& Session::counters() const {
  return engine_->counters();
}

HandlePtr Session::submit(Call call) {
  const RankList members = find_process_set(call.process_set);
  if (!std::ranges::binary_search(*members, topology().rank())) {
    raise(ErrorKind::kInvalidArgument, "rank {} is not a member of the process set of the ranks {}",
          topology().rank(), RankSet(*members).to_string());
  }
  Submission submission = to_submission(std::move(call));
  const Request& request = submission.request;
  const OpKind op = request.signature.op;
  try {
    op_spec(op).check(submission, *members);
    engine_->prepare(submission, static_cast<int>(members->size()));
  } catch (const Error& error) {
    const std::string& tensor = request.key.name;
    refuse(op, tensor, request.key.process_set, error.what(), submission.caller);
    throw Error(error.kind(),
                fmt::format("{}{}: {}", name(op), tensor.empty() ? "" : " '" + tensor + "'", error.what()));
  }
  HandlePtr handle = submission.handle;
  engine_->submit(std::move(submission));
  return handle;
}

Session::Together::Together(Session& session) : session_(session) {
  session_.engine_->hold();
}
Session::Together::~Together() {
  session_.engine_->let_go();
}

Session::Attention::Attention(Session& session) : session_(session) {
  session_.engine_->attend();
}
Session::Attention::~Attention() {
  session_.engine_->attend_no_more();
}

void Session::refuse(OpKind op, const std::string& name, std::int32_t process_set, const std::string& reason,
                     Caller caller) {
  const RankList members = engine_->process_set(process_set);
  if (members == nullptr || !std::ranges::binary_search(*members, topology().rank())) return;
  Submission submission;
  submission.request.key = {name, 0, process_set};
  submission.request.signature.op = op;
  submission.request.signature.refusal = reason;
  submission.caller = std::move(caller);
  submission.handle = std::make_shared<Handle>(submission.request.key);
  engine_->refuse(std::move(submission));
}

std::vector<int> Session::process_set(std::int32_t id) const {
  return *find_process_set(id);
}

std::shared_ptr<const std::vector<int>> Session::find_process_set(std::int32_t id) const {
  RankList ranks = engine_->process_set(id);
  if (ranks == nullptr) raise(ErrorKind::kInvalidArgument, "there is no process set {}; add it first", id);
  return ranks;
}

bool Session::wait_until(Handle& handle, TimePoint deadline) {
  return engine_->wait_until(handle, deadline);
}
void Session::order_before(const Handle& handle, std::uintptr_t stream) const {
  DeviceWork* const work = handle.work();
  if (work == nullptr) return;
  work->order_before(stream);
  if (waits_on_host_) work->wait();
}
void Session::require_working() const {
  engine_->require_working();
}
void Session::release(const Handle& handle) {
  engine_->release(handle);
}
std::shared_ptr<std::byte[]> Session::allocate(std::size_t bytes) {
  return engine_->allocate(bytes);
}
void Session::leave(const std::string& cause) {
  engine_->leave(cause);
}
void Session::give_up(const std::string& reason, TimePoint deadline) {
  engine_->give_up(reason, deadline);
}
bool Session::failed_elsewhere() const {
  return engine_->failed_elsewhere();
}
void Session::close_in_child() {
  engine_->close_in_child();
}

}  // namespace hora
