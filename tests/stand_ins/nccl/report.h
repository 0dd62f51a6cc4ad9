#pragma once

#include <string>
#include <string_view>

#include "backends/nccl/nccl_api.h"

namespace hora::fake_nccl {

/// Says on stderr what is wrong with the caller, and aborts.
[[noreturn]] void end_process(std::string_view message);

/// Keeps the message for ncclGetLastError and returns the result.
nccl::Result failed(nccl::Result result, std::string message);

}  // namespace hora::fake_nccl
