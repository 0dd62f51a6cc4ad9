#include "stand_ins/nccl/report.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>

#include "stand_ins/nccl/symbols.h"

namespace hora::fake_nccl {
namespace {

std::atomic<const char*> last_message{""};

/// Callers hold what ncclGetLastError gave them as long as they like, so messages live for ever.
const char* keep(std::string message) {
  static std::mutex mutex;
  static auto* const messages = new std::deque<std::string>;
  const std::lock_guard lock(mutex);
  return messages->emplace_back(std::move(message)).c_str();
}

}  // namespace

void end_process(std::string_view message) {
  std::fprintf(stderr, "hora_fake_nccl: %.*s\n", static_cast<int>(message.size()), message.data());
  std::fflush(stderr);
  std::abort();
}

nccl::Result failed(nccl::Result result, std::string message) {
  last_message.store(keep(std::move(message)));
  return result;
}

using nccl::Result;

extern "C" {

const char* ncclGetErrorString(Result result) {
  switch (result) {
    case Result::kSuccess:
      return "no error";
    case Result::kUnhandledCudaError:
      return "unhandled cuda error";
    case Result::kSystemError:
      return "unhandled system error";
    case Result::kInternalError:
      return "internal error";
    case Result::kInvalidArgument:
      return "invalid argument";
    case Result::kInvalidUsage:
      return "invalid usage";
    case Result::kRemoteError:
      return "remote process exited or there was a network error";
    case Result::kInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(nccl::Comm /*comm*/) {
  return last_message.load();
}
}

}  // namespace hora::fake_nccl
