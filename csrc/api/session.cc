#include "api/session.h"

#include <fmt/format.h>

#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/thread.h"
#include "engine/engine.h"
#include "ops/table.h"

namespace hora {
namespace {

Submission to_submission(Call call) {
  const OpSpec& spec = op_spec(call.op);
  Submission submission;
  submission.request.key.name = call.name;
  submission.request.bytes = call.input.bytes();
  submission.request.signature = {.op = call.op,
                                  .dtype = call.input.dtype,
                                  .device = call.input.device,
                                  .reduce = call.reduce,
                                  .root = call.root,
                                  .prescale = call.prescale,
                                  .postscale = call.postscale,
                                  .shape = agreed_shape(spec, call.input.shape),
                                  .refusal = {}};
  submission.input = std::move(call.input);
  submission.output = std::move(call.output);
  submission.handle = std::make_shared<Handle>(std::move(call.name));
  return submission;
}

void warn_about_binding(const Topology& topology) {
  if (topology.size() == 1 || usable_cores() > 1 || std::thread::hardware_concurrency() < 2) return;
  static std::once_flag told;
  std::call_once(told, [] {
    log_warning(
        "this rank may run on one core only, which its main thread and hora's background thread have to "
        "share; "
        "start with 'mpirun --bind-to none'");
  });
}

}  // namespace

Session::Session(std::unique_ptr<Transport> transport, const Settings& settings) {
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
  Submission submission = to_submission(std::move(call));
  const Request& request = submission.request;
  try {
    op_spec(request.signature.op).check(submission, topology().size());
  } catch (const Error& error) {
    refuse(request.signature.op, request.key.name, error.what());
    throw Error(error.kind(),
                fmt::format("{}{}: {}", name(request.signature.op),
                            request.key.name.empty() ? "" : " '" + request.key.name + "'", error.what()));
  }
  HandlePtr handle = submission.handle;
  engine_->submit(std::move(submission));
  return handle;
}

void Session::refuse(OpKind op, const std::string& name, const std::string& reason) {
  Submission submission;
  submission.request.key.name = name;
  submission.request.signature.op = op;
  submission.request.signature.refusal = reason;
  submission.handle = std::make_shared<Handle>(name);
  engine_->refuse(std::move(submission));
}

bool Session::wait_until(Handle& handle, TimePoint deadline) {
  return engine_->wait_until(handle, deadline);
}
void Session::release(const Handle& handle) {
  engine_->release(handle);
}
void Session::leave() {
  engine_->leave();
}

}  // namespace hora
