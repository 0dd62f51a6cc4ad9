#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/device_work.h"
#include "core/handle.h"
#include "core/request.h"

namespace hora {

/// The memory of this rank for one tensor of a request.
struct LocalTensor {
  std::byte* input = nullptr;
  std::byte* output = nullptr;  ///< the same for an operation in place; null where the op allocates
  std::int64_t rows = 0;        ///< first dimension of this rank's input
};

/// A request together with the memory of this rank it is about.
struct Submission {
  Request request;
  std::vector<LocalTensor> tensors;             ///< as in the request's signature
  std::vector<Output> results;                  ///< by tensor; filled by an op that allocates its output
  std::vector<std::int64_t> splits;             ///< alltoall: rows for each member of the set
  std::vector<std::shared_ptr<void>> reserved;  ///< memory of its device put aside for results; null: none
  DeviceReady ready;                            ///< when the tensors are on a device
  Caller caller;
  bool is_absent = false;  ///< this rank has joined and contributes nothing
  HandlePtr handle;
};

}  // namespace hora
