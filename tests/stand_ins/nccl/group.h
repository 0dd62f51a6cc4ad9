#pragma once

#include <memory>
#include <vector>

#include "stand_ins/nccl/communicator.h"
#include "stand_ins/nccl/operation.h"

namespace hora::fake_nccl {

/// The calls between the outermost group start and end of a thread, or one call outside of any group.
class Group {
 public:
  void add(std::shared_ptr<Communicator> communicator, const Operation& operation);
  /// A call in the group has failed; the group does nothing then.
  void set_error(nccl::Result error);

  /// Launches all calls, on each communicator as one piece of work.
  nccl::Result run();

 private:
  struct Part {
    std::shared_ptr<Communicator> communicator;
    std::vector<Operation> operations;
  };

  nccl::Result check() const;

  std::vector<Part> parts_;
  nccl::Result error_ = nccl::Result::kSuccess;
};

}  // namespace hora::fake_nccl
