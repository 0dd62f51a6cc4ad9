#include "status.h"

#include "base/error.h"

namespace hora::tensorflow {
namespace {

Code code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return Code::kInvalidArgument;
    case ErrorKind::kMismatch:
    case ErrorKind::kNotInitialized:
    case ErrorKind::kStartup:
      return Code::kFailedPrecondition;
    case ErrorKind::kSessionFailed:
      return Code::kUnknown;
  }
  return Code::kInternal;
}

}  // namespace

StatusPtr make_status() {
  return {api().new_status(), api().delete_status};
}

StatusPtr to_status(const std::exception& error) {
  StatusPtr status = make_status();
  const auto* const ours = dynamic_cast<const Error*>(&error);
  api().set_status(status.get(), ours != nullptr ? code_of(ours->kind()) : Code::kInternal, error.what());
  return status;
}

void require_ok(const Status& status) {
  if (api().get_code(&status) != Code::kOk)
    raise(ErrorKind::kInvalidArgument, "TensorFlow: {}", api().message(&status));
}

}  // namespace hora::tensorflow
